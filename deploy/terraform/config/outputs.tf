output "stop_seconds" {
  description = "Seconds from the signal to end until the process may be killed."
  value       = nonsensitive(min(coalesce(local.drain, var.longest) + 10, var.longest))

  precondition {
    condition     = local.drain != null && coalesce(local.drain, var.longest) < var.longest
    error_message = "server.drain_delay and server.drain of the configuration must together be below ${var.longest} seconds here: the service kills the process then."
  }

  precondition {
    condition     = length(local.missing) == 0
    error_message = "The configuration must listen on each of the ports ${join(", ", var.ports)}."
  }
}
