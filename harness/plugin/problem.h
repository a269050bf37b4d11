// The plain C values of a case for a plugin, and what a plugin's promises are for everybody else.
#pragma once

#include <string>

#include "harness/model/case.h"
#include "harness/model/contract.h"
#include "harness/plugin/shardproof_plugin.h"

namespace shardproof {

// Its strings live as long as the tables that the case is of.
shardproof_problem problem_of(const Case& value);

// The precision of shardproof's own subjects of the problem's operator.
Precision default_precision(const Problem& problem);

// `defaults` with what the plugin changes. Throws Error where a promise is none: broken_promise().
Contract promised(const shardproof_subject& subject, const Case& value, Contract defaults);

// Why these promises are nonsense, or an empty string: "precision: score is 7, ...".
std::string broken_promise(const shardproof_contract& promise);

// Which promise is tighter than the one of `defaults`, or an empty string.
std::string tighter_promise(const Precision& promise, const Precision& defaults);

// "f64, f32, tf32, bf16, f16"
std::string choices_of_dtypes();

// Why the subject cannot do the case, apart from its mesh: features, dtype, what itself says.
std::string missing_feature(const shardproof_subject& subject, const Case& value);

// Takes from a drawn case what the subject lacks the feature for, and keeps its limits.
void remove_features(const shardproof_subject& subject, Case& value);

}  // namespace shardproof
