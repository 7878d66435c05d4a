output "url" {
  description = "URL of the gateway."
  value       = "https://${azurerm_container_app.weir.name}.${azurerm_container_app_environment.weir.default_domain}"
}

output "outbound_addresses" {
  description = "Addresses from which Weir calls upstreams."
  value       = azurerm_container_app.weir.outbound_ip_addresses
}

output "identity" {
  description = "Principal of the app's identity, for rights of your own."
  value       = azurerm_user_assigned_identity.weir.principal_id
}

output "stop_seconds" {
  description = "Seconds that a replica has to finish its requests."
  value       = module.config.stop_seconds
}
