# Weir as a container app of Azure. The service's ingress terminates TLS, and load-balances requests over the replicas.

module "config" {
  source  = "../../config"
  config  = var.config
  ports   = [var.port, var.health_port]
  longest = 600
}

resource "azurerm_resource_group" "weir" {
  name     = var.name
  location = var.location
}

resource "azurerm_log_analytics_workspace" "weir" {
  name                = var.name
  location            = azurerm_resource_group.weir.location
  resource_group_name = azurerm_resource_group.weir.name
  sku                 = "PerGB2018"
  retention_in_days   = var.log_days
}

resource "azurerm_container_app_environment" "weir" {
  name                           = var.name
  location                       = azurerm_resource_group.weir.location
  resource_group_name            = azurerm_resource_group.weir.name
  logs_destination               = "log-analytics"
  log_analytics_workspace_id     = azurerm_log_analytics_workspace.weir.id
  infrastructure_subnet_id       = var.subnet_id
  internal_load_balancer_enabled = var.subnet_id == null ? null : var.internal
  zone_redundancy_enabled        = var.subnet_id == null ? null : true

  workload_profile {
    name                  = "Consumption"
    workload_profile_type = "Consumption"
  }
}

# Pulls the image and reads the secrets; Weir itself needs no rights.
resource "azurerm_user_assigned_identity" "weir" {
  name                = var.name
  location            = azurerm_resource_group.weir.location
  resource_group_name = azurerm_resource_group.weir.name
}

resource "azurerm_role_assignment" "pull" {
  count                = var.registry_id == null ? 0 : 1
  scope                = var.registry_id
  role_definition_name = "AcrPull"
  principal_id         = azurerm_user_assigned_identity.weir.principal_id
}

resource "azurerm_role_assignment" "secrets" {
  count                = var.key_vault_id == null ? 0 : 1
  scope                = var.key_vault_id
  role_definition_name = "Key Vault Secrets User"
  principal_id         = azurerm_user_assigned_identity.weir.principal_id
}

resource "azurerm_container_app" "weir" {
  name                         = var.name
  resource_group_name          = azurerm_resource_group.weir.name
  container_app_environment_id = azurerm_container_app_environment.weir.id
  revision_mode                = "Single"
  workload_profile_name        = "Consumption"
  max_inactive_revisions       = 5

  identity {
    type         = "UserAssigned"
    identity_ids = [azurerm_user_assigned_identity.weir.id]
  }

  dynamic "registry" {
    for_each = var.registry_id == null ? [] : [split("/", var.image)[0]]
    content {
      server   = registry.value
      identity = azurerm_user_assigned_identity.weir.id
    }
  }

  # The name of the secret is that of the file.
  secret {
    name  = "weir-yaml"
    value = var.config
  }

  dynamic "secret" {
    for_each = var.secrets
    content {
      name                = lower(replace(secret.key, "_", "-"))
      key_vault_secret_id = secret.value
      identity            = azurerm_user_assigned_identity.weir.id
    }
  }

  ingress {
    external_enabled           = true
    allow_insecure_connections = false
    target_port                = var.port
    transport                  = var.http2 ? "http2" : "http"

    traffic_weight {
      latest_revision = true
      percentage      = 100
    }

    dynamic "ip_security_restriction" {
      for_each = var.client_cidrs
      content {
        name             = "clients-${ip_security_restriction.key}"
        action           = "Allow"
        ip_address_range = ip_security_restriction.value
      }
    }
  }

  template {
    min_replicas                     = var.replicas.min
    max_replicas                     = var.replicas.max
    termination_grace_period_seconds = module.config.stop_seconds

    http_scale_rule {
      name                = "requests"
      concurrent_requests = tostring(var.concurrent_requests)
    }

    volume {
      name         = "config"
      storage_type = "Secret"
    }

    container {
      name   = "weir"
      image  = var.image
      args   = ["--config", "/etc/weir/weir-yaml"]
      cpu    = var.cpu
      memory = "${var.cpu * 2}Gi"

      # A secret that changes makes no new revision; a variable does.
      env {
        name  = "WEIR_CONFIG_SHA256"
        value = nonsensitive(sha256(var.config))
      }

      dynamic "env" {
        for_each = var.secrets
        content {
          name        = env.key
          secret_name = lower(replace(env.key, "_", "-"))
        }
      }

      volume_mounts {
        name = "config"
        path = "/etc/weir"
      }

      startup_probe {
        transport               = "HTTP"
        port                    = var.health_port
        path                    = "/healthz"
        interval_seconds        = 1
        timeout                 = 1
        failure_count_threshold = 30
      }

      readiness_probe {
        transport               = "HTTP"
        port                    = var.health_port
        path                    = "/healthz"
        interval_seconds        = 3
        timeout                 = 2
        failure_count_threshold = 1
        success_count_threshold = 1
      }

      # TCP, as the service's own default: /healthz responds with 503 from the signal to end on, and draining is no fault.
      liveness_probe {
        transport               = "TCP"
        port                    = var.health_port
        interval_seconds        = 10
        timeout                 = 3
        failure_count_threshold = 3
      }
    }
  }

  depends_on = [azurerm_role_assignment.pull, azurerm_role_assignment.secrets]
}
