# `tofu test` or `terraform test` in this folder; no provider.

variables {
  ports   = [8080, 8081]
  longest = 120
}

run "defaults" {
  command = plan
  variables {
    config = "listen: [0.0.0.0:8080, 0.0.0.0:8081]"
  }
  assert {
    condition     = output.stop_seconds == 40
    error_message = "30 s of drain and 10 s of reserve"
  }
}

run "both_times" {
  command = plan
  variables {
    config = "listen: [{bind: 0.0.0.0:8080, http2: prior_knowledge}, 0.0.0.0:8081]\nserver: {drain: 1m, drain_delay: 1500ms}"
  }
  assert {
    condition     = output.stop_seconds == 72
    error_message = "60 s, 2 s and 10 s of reserve"
  }
}

run "not_above_the_limit" {
  command = plan
  variables {
    config  = "listen: [0.0.0.0:8080, 0.0.0.0:8081]\nserver: {drain: 8s}"
    longest = 10
  }
  assert {
    condition     = output.stop_seconds == 10
    error_message = "never above the limit"
  }
}

run "a_mapping_and_admin" {
  command = plan
  variables {
    config = "listen: {bind: 0.0.0.0:8080}\nadmin: 127.0.0.1:8081"
  }
  assert {
    condition     = output.stop_seconds == 40
    error_message = "30 s of drain and 10 s of reserve"
  }
}

run "a_variable_may_be_any_port" {
  command = plan
  variables {
    config = "listen: [\"0.0.0.0:$${PORT}\", 0.0.0.0:8081]\nserver: null"
  }
}

run "a_port_is_missing" {
  command = plan
  variables {
    config = "listen: [0.0.0.0:8080, 0.0.0.0:18081]"
  }
  expect_failures = [output.stop_seconds]
}

run "killed_before_it_has_drained" {
  command = plan
  variables {
    config = "listen: [0.0.0.0:8080, 0.0.0.0:8081]\nserver: {drain: 110s, drain_delay: 10s}"
  }
  expect_failures = [output.stop_seconds]
}

run "drains_without_an_end" {
  command = plan
  variables {
    config = "listen: [0.0.0.0:8080, 0.0.0.0:8081]\nserver: {drain: none}"
  }
  expect_failures = [output.stop_seconds]
}

run "a_time_that_is_a_variable" {
  command = plan
  variables {
    config = "listen: [0.0.0.0:8080, 0.0.0.0:8081]\nserver: {drain: \"$${DRAIN}\"}"
  }
  expect_failures = [output.stop_seconds]
}

run "no_configuration" {
  command = plan
  variables {
    config = "routes: []"
  }
  expect_failures = [var.config]
}

run "no_yaml" {
  command = plan
  variables {
    config = "listen: ["
  }
  expect_failures = [var.config]
}

# The examples of docs/cloud.md, in their order: Azure Container Apps, Fargate, Cloud Run.

run "example_of_azure" {
  command = plan
  variables {
    config  = regexall("(?s)```yaml weir.yaml\n(.*?)```", file("../../../docs/cloud.md"))[0][0]
    longest = 600
  }
  assert {
    condition     = output.stop_seconds == 70
    error_message = "60 s of drain and 10 s of reserve"
  }
}

run "example_of_fargate" {
  command = plan
  variables {
    config = regexall("(?s)```yaml weir.yaml\n(.*?)```", file("../../../docs/cloud.md"))[1][0]
    ports  = [8080, 8081, 9901]
  }
  assert {
    condition     = output.stop_seconds == 70
    error_message = "60 s of drain and 10 s of reserve"
  }
}

run "example_of_cloud_run" {
  command = plan
  variables {
    config  = regexall("(?s)```yaml weir.yaml\n(.*?)```", file("../../../docs/cloud.md"))[2][0]
    longest = 10
  }
  assert {
    condition     = output.stop_seconds == 10
    error_message = "as long as Cloud Run waits"
  }
}
