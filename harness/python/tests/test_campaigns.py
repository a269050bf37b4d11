"""Campaigns of Python subjects. SHARDPROOF_PROGRAM and SHARDPROOF_BRIDGE name a build's."""

import numpy as np
import pytest

import shardproof
import subjects


def fuzz(subject, tmp_path, cases=150, flags=()):
    return shardproof.fuzz(subject, cases=cases, seed=3, goldens=tmp_path / "goldens", quiet=True,
                           flags=flags)


@pytest.mark.parametrize("name", ["right", "blind_rows_are_kept_away", "equal_heads",
                                  "only_the_plainest", "mlp_in_float64"])
def test_right_functions_hold(name, tmp_path):
    report = fuzz(getattr(subjects, name), tmp_path, cases=600)
    assert report.ok, report.output
    assert report.summary["holds"] > 400
    assert report.failures == []


@pytest.mark.parametrize("name, claim", [
    ("first_key_lost", "matches_reference"), ("wrong_backward", "matches_reference"),
    ("blind_rows_are_nan", "matches_reference"), ("mlp_without_bias", "matches_reference"),
    ("writes_to_its_inputs", "")])
def test_wrong_functions_are_falsified(name, claim, tmp_path):
    subject = getattr(subjects, name)
    report = fuzz(subject, tmp_path)
    assert report.exit_code == 1 and report.failures, report.output
    failure = next(f for f in report.failures if claim in f.property)
    assert subject.name in failure.case
    assert not shardproof.check(subject, failure.case, quiet=True)
    assert not shardproof.replay(subject, failure.golden, quiet=True)


def test_a_golden_has_its_arrays(tmp_path):
    failure = fuzz(subjects.first_key_lost, tmp_path).failures[0]
    golden = shardproof.load(failure.golden)
    assert golden.case == failure.case
    assert golden.message.startswith(golden.tensor)
    got, want, bound = (part[golden.tensor] for part in (golden.got, golden.want, golden.bound))
    assert got.shape == want.shape == bound.shape
    assert np.abs(got.astype(np.float64) - want).flat[golden.element] > bound.flat[golden.element]
    with pytest.raises(ValueError, match="is no golden"):
        shardproof.load(__file__)


@pytest.mark.parametrize("name, says", [("raises", "KeyError: 'no such head' (subjects.py:"),
                                        ("exits", "the Python process exited with 3"),
                                        ("crashes", "the Python process died of signal 11")])
def test_what_goes_wrong_is_said(name, says, tmp_path):
    report = fuzz(getattr(subjects, name), tmp_path, cases=5)
    assert report.exit_code == 1
    assert says in report.output


def test_a_hanging_function_times_out_and_leaves_no_process(tmp_path):
    report = fuzz(subjects.hangs, tmp_path, cases=1, flags=["--case-timeout=1s", "--jobs=1"])
    assert report.summary["timed_out"] > 0
    assert report.exit_code == 1


def test_several_subjects_share_a_campaign(tmp_path):
    report = shardproof.fuzz(subjects.right, subjects.mlp_in_float64, cases=100, quiet=True,
                             goldens=tmp_path)
    assert report.ok


def test_the_same_seed_judges_the_same_cases(tmp_path):
    one, other = (fuzz(subjects.right, tmp_path, flags=[f"--jobs={jobs}"]) for jobs in (1, 2))
    assert one.summary["digest"] == other.summary["digest"]


def test_an_assertion_shows_the_case(tmp_path):
    with pytest.raises(AssertionError, match=r"case:   attention .* \| first_key_lost"):
        shardproof.assert_holds(subjects.first_key_lost, cases=50, goldens=tmp_path)


def test_wrong_use_is_an_error(tmp_path):
    with pytest.raises(ValueError, match="precision of score is 'f31'; allowed: 'f64'"):
        shardproof.attention(precision={"score": "f31"})(softmax)
    with pytest.raises(ValueError, match="inside another function"):
        @shardproof.attention
        def local(q, k, v, *, mask, scale):
            return q
    with pytest.raises(TypeError, match="is no subject"):
        shardproof.fuzz(softmax)
    with pytest.raises(shardproof.Unavailable, match="--mask: 'round' is unknown"):
        shardproof.fuzz(subjects.right, cases=1, quiet=True, flags=["--mask=round"])


def softmax(q, k, v, *, mask, scale):
    return subjects.softmax_attention(q, k, v, mask, scale)
