# Weir on a scale set of machines in three zones, behind the Standard Load Balancer of Azure.

resource "azurerm_resource_group" "weir" {
  name     = var.name
  location = var.location
}

resource "azurerm_virtual_network" "weir" {
  name                = var.name
  location            = azurerm_resource_group.weir.location
  resource_group_name = azurerm_resource_group.weir.name
  address_space       = ["10.80.0.0/16"]
}

resource "azurerm_subnet" "weir" {
  name                 = "machines"
  resource_group_name  = azurerm_resource_group.weir.name
  virtual_network_name = azurerm_virtual_network.weir.name
  address_prefixes     = ["10.80.1.0/24"]
}

# Azure's default rules let in the load balancer's probes and the virtual network, and nothing else.
resource "azurerm_network_security_group" "weir" {
  name                = var.name
  location            = azurerm_resource_group.weir.location
  resource_group_name = azurerm_resource_group.weir.name

  security_rule {
    name                       = "clients"
    priority                   = 100
    direction                  = "Inbound"
    access                     = "Allow"
    protocol                   = "Tcp"
    source_address_prefixes    = var.client_cidrs
    source_port_range          = "*"
    destination_address_prefix = "10.80.1.0/24"
    destination_port_range     = tostring(var.port)
  }
}

resource "azurerm_subnet_network_security_group_association" "weir" {
  subnet_id                 = azurerm_subnet.weir.id
  network_security_group_id = azurerm_network_security_group.weir.id
}

resource "azurerm_public_ip" "weir" {
  name                = var.name
  location            = azurerm_resource_group.weir.location
  resource_group_name = azurerm_resource_group.weir.name
  allocation_method   = "Static"
  sku                 = "Standard"
  zones               = ["1", "2", "3"]
}

resource "azurerm_lb" "weir" {
  name                = var.name
  location            = azurerm_resource_group.weir.location
  resource_group_name = azurerm_resource_group.weir.name
  sku                 = "Standard"

  frontend_ip_configuration {
    name                 = "public"
    public_ip_address_id = azurerm_public_ip.weir.id
  }
}

resource "azurerm_lb_backend_address_pool" "weir" {
  name            = "machines"
  loadbalancer_id = azurerm_lb.weir.id
}

resource "azurerm_lb_probe" "weir" {
  name                = "healthz"
  loadbalancer_id     = azurerm_lb.weir.id
  protocol            = "Http"
  port                = var.health_port
  request_path        = "/healthz"
  interval_in_seconds = 5
  probe_threshold     = 2
}

# This balancer passes packets on with the client's own address: Weir sees it without a PROXY header.
resource "azurerm_lb_rule" "weir" {
  name                           = "clients"
  loadbalancer_id                = azurerm_lb.weir.id
  frontend_ip_configuration_name = "public"
  backend_address_pool_ids       = [azurerm_lb_backend_address_pool.weir.id]
  probe_id                       = azurerm_lb_probe.weir.id
  protocol                       = "Tcp"
  frontend_port                  = var.port
  backend_port                   = var.port
  tcp_reset_enabled              = true
  idle_timeout_in_minutes        = 15
}

resource "azurerm_linux_virtual_machine_scale_set" "weir" {
  name                = var.name
  location            = azurerm_resource_group.weir.location
  resource_group_name = azurerm_resource_group.weir.name
  sku                 = var.machine
  instances           = var.replicas
  zones               = ["1", "2", "3"]
  admin_username      = "weir"
  upgrade_mode        = "Rolling"
  health_probe_id     = azurerm_lb_probe.weir.id
  custom_data = base64encode(templatefile("${path.module}/../../boot/weir.sh.tftpl", {
    package_url    = base64encode(var.package.url)
    package_sha256 = base64encode(var.package.sha256)
    config         = base64encode(var.config)
  }))

  admin_ssh_key {
    username   = "weir"
    public_key = var.ssh_public_key
  }

  source_image_reference {
    publisher = "Debian"
    offer     = "debian-12"
    sku       = "12-gen2"
    version   = var.image_version
  }

  os_disk {
    caching              = "ReadOnly"
    storage_account_type = "StandardSSD_LRS"
  }

  network_interface {
    name                          = "machine"
    primary                       = true
    enable_accelerated_networking = true

    ip_configuration {
      name                                   = "machine"
      primary                                = true
      subnet_id                              = azurerm_subnet.weir.id
      load_balancer_backend_address_pool_ids = [azurerm_lb_backend_address_pool.weir.id]
    }
  }

  # One machine at a time, and the next one only when the probe has said that the last one serves.
  rolling_upgrade_policy {
    max_batch_instance_percent              = 34
    max_unhealthy_instance_percent          = 34
    max_unhealthy_upgraded_instance_percent = 34
    pause_time_between_batches              = "PT60S"
  }

  # Without a rule the machines have no way out, and cannot fetch the package.
  depends_on = [azurerm_lb_rule.weir, azurerm_subnet_network_security_group_association.weir]
}
