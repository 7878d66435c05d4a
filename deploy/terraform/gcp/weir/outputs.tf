output "address" {
  description = "Public address of the gateway."
  value       = google_compute_address.weir.address
}
