# Reads Weir's configuration, so that a plan fails where a container would not start, or would be killed before it has drained. No resources.

locals {
  config = yamldecode(var.config)
  binds  = concat([for one in flatten([local.config.listen]) : try(tostring(one.bind), tostring(one))], [try(tostring(local.config.admin), "")])
  # An address with a variable may be any port.
  missing = [
    for port in var.ports : port
    if !anytrue([for bind in local.binds : endswith(bind, ":${port}") || strcontains(bind, "$")])
  ]

  # Defaults of Weir.
  times = {
    drain       = try(tostring(local.config.server.drain), "30s")
    drain_delay = try(tostring(local.config.server.drain_delay), "none")
  }
  units = { ms = 0.001, s = 1, m = 60, h = 3600, d = 86400 }
  # null: no number of seconds. `drain: none` waits without an end.
  seconds = {
    for name, text in local.times : name => text == "none" && name == "drain_delay" ? 0 : try(
      ceil(tonumber(regex("^([0-9]+)(ms|s|m|h|d)$", text)[0]) * local.units[regex("^([0-9]+)(ms|s|m|h|d)$", text)[1]]),
      null,
    )
  }
  drain = try(local.seconds.drain + local.seconds.drain_delay, null)
}
