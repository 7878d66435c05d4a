//! The rows of a judgement: a system under a workload, all rounds together.
