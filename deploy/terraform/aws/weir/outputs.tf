output "address" {
  description = "Public host name of the gateway."
  value       = aws_lb.weir.dns_name
}
