output "address" {
  description = "Host name of the load balancer."
  value       = aws_lb.weir.dns_name
}

output "zone_id" {
  description = "Hosted zone of the load balancer, for an alias record of Route 53."
  value       = aws_lb.weir.zone_id
}

output "task_role" {
  description = "Name of the role of the tasks, for rights of your own."
  value       = aws_iam_role.task.name
}

output "task_security_group" {
  description = "Security group of the tasks: let it in to the upstreams."
  value       = aws_security_group.task.id
}

output "stop_seconds" {
  description = "Seconds that a task has to finish its requests."
  value       = module.config.stop_seconds
}
