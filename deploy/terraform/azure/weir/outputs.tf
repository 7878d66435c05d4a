output "address" {
  description = "Public address of the gateway."
  value       = azurerm_public_ip.weir.ip_address
}
