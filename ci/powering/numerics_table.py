"""The table fault x detector: in how many percent of cases each way to compare objects to a run."""

import subprocess

ATTENTION = ("attention batch=1 heads=4/2 q=96 kv=96 dim=36/34 mask={mask} softcap={cap} "
             "dtype={dtype} data=normal seed=0 | {subject} world=sim device=cpu mesh=cp:4 "
             "layout=contiguous")
MLP = ("mlp tokens=64 features=48 hidden=96 outputs=40 activation=gelu gated=no dtype={dtype} "
       "data=normal seed=0 | {subject} world=sim device=cpu mesh=tp:4")
NORM = ("norm_mlp tokens=64 features=48 hidden=96 outputs=40 norm=layer epsilon={epsilon} "
        "dtype={dtype} data=normal seed=0 | {subject} world=sim device=cpu mesh=tp:4")
DTYPES = ("f32", "bf16")
DETECTORS = ("T1", "T2", "T2+T3", "T2+T4", "filter", "probe", "allclose 1e-2", "twice one device")

# What the subject does wrong, its name, its case, and what differs from the usual one.
ROWS = [
    ("nothing", "ring_attention", ATTENTION, {}),
    ("a ring step overwrites the one before", "ring_step_overwrites", ATTENTION, {}),
    ("masked by local positions", "ring_mask_by_local_positions", ATTENTION, {"mask": "causal"}),
    ("the accumulator is not rescaled", "ring_accumulator_not_rescaled", ATTENTION, {}),
    ("the accumulator in the tensors' type between blocks", "ring_accumulator_in_the_tensors_type",
     ATTENTION, {}),
    ("travelling gradients in bf16", "ring_gradients_in_bf16", ATTENTION, {}),
    ("backward P in bf16", "ring_probability_in_bf16", ATTENTION, {}),
    ("backward P cut off to bf16", "ring_probability_cut_off", ATTENTION, {}),
    ("lse in bf16", "ring_lse_in_bf16", ATTENTION, {}),
    ("the gradient of lse is dropped", "ring_lse_gradient_dropped", ATTENTION, {}),
    ("the scale of dq, dk in the tensors' type", "ring_scale_in_the_tensors_type", ATTENTION, {}),
    ("the softcap's derivative is missing, cap 3", "ring_softcap_slope_missing", ATTENTION,
     {"cap": 3}),
    ("the softcap's derivative is missing, cap 30", "ring_softcap_slope_missing", ATTENTION,
     {"cap": 30}),
    ("nothing", "column_row_mlp", MLP, {}),
    ("the sum is not reduced", "mlp_sum_not_reduced", MLP, {}),
    ("dx is not reduced", "mlp_dx_not_reduced", MLP, {}),
    ("the bias on every rank", "mlp_bias_on_every_rank", MLP, {}),
    ("reduced in bf16", "mlp_sum_in_bf16", MLP, {}),
    ("reduced in the tensors' type", "mlp_sum_in_the_tensors_type", MLP, {}),
    ("gelu forward, derivative of its tanh form", "mlp_derivative_of_the_other_gelu", MLP, {}),
    ("nothing", "sequence_parallel_norm_mlp", NORM, {}),
    ("epsilon 1e-3 is missing", "norm_without_epsilon", NORM, {"epsilon": 1e-3}),
    ("epsilon 1e-2 is missing", "norm_without_epsilon", NORM, {"epsilon": 1e-2}),
    ("the variance of a sample", "norm_variance_of_a_sample", NORM, {}),
    ("statistics in bf16", "norm_statistics_in_bf16", NORM, {}),
]


def seen(program, subject, case, changes, count):
    """For each dtype the percentages of the detectors and the largest ratio of T4."""
    result = []
    for dtype in DTYPES:
        fields = {"mask": "none", "cap": 30, "epsilon": 1e-5, **changes}
        text = case.format(subject=subject, dtype=dtype, **fields)
        run = subprocess.run([program, text, str(count)], capture_output=True, text=True,
                             check=False)
        if run.returncode != 0:
            raise SystemExit(f"{program} '{text}' {count}: {run.stderr.strip()}")
        result.append(run.stdout.split())
    return result


def table(program, count):
    lines = ["| operator | fault | " + " | ".join(DETECTORS) + " |",
             "|---" * (len(DETECTORS) + 2) + "|"]
    for fault, subject, case, changes in ROWS:
        percentages = zip(*seen(program, subject, case, changes, count))
        cells = [" / ".join(pair) for pair in list(percentages)[:len(DETECTORS)]]
        lines.append(f"| {case.split()[0]} | {fault} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"
