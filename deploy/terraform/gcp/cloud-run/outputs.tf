output "url" {
  description = "URL of the gateway."
  value       = google_cloud_run_v2_service.weir.uri
}

output "service_account" {
  description = "E-mail address of the service account, for rights of your own."
  value       = google_service_account.weir.email
}

output "stop_seconds" {
  description = "Seconds that an instance has to finish its requests."
  value       = module.config.stop_seconds
}
