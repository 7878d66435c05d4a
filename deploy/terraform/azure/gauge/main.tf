# Machines for a measurement: one type, one zone, one placement group. Only generators have a public address, and only for SSH.

locals {
  # By name: each role once, and further generators.
  machines = merge({ for role in var.roles : role => role }, { for number in range(2, var.generators + 1) : "generator-${number}" => "generator" })
}

resource "azurerm_resource_group" "gauge" {
  name     = var.name
  location = var.location
  tags     = { expires = var.expires }
}

resource "azurerm_proximity_placement_group" "gauge" {
  name                = var.name
  location            = azurerm_resource_group.gauge.location
  resource_group_name = azurerm_resource_group.gauge.name
  tags                = { expires = var.expires }
}

resource "azurerm_virtual_network" "gauge" {
  name                = var.name
  location            = azurerm_resource_group.gauge.location
  resource_group_name = azurerm_resource_group.gauge.name
  address_space       = ["10.90.0.0/16"]
  tags                = { expires = var.expires }
}

resource "azurerm_subnet" "gauge" {
  name                 = "machines"
  resource_group_name  = azurerm_resource_group.gauge.name
  virtual_network_name = azurerm_virtual_network.gauge.name
  address_prefixes     = ["10.90.1.0/24"]
}

# Azure's default rules let in the virtual network, and nothing else.
resource "azurerm_network_security_group" "gauge" {
  name                = var.name
  location            = azurerm_resource_group.gauge.location
  resource_group_name = azurerm_resource_group.gauge.name
  tags                = { expires = var.expires }

  security_rule {
    name                       = "ssh"
    priority                   = 100
    direction                  = "Inbound"
    access                     = "Allow"
    protocol                   = "Tcp"
    source_address_prefix      = var.ssh_cidr
    source_port_range          = "*"
    destination_address_prefix = "10.90.1.0/24"
    destination_port_range     = "22"
  }
}

resource "azurerm_subnet_network_security_group_association" "gauge" {
  subnet_id                 = azurerm_subnet.gauge.id
  network_security_group_id = azurerm_network_security_group.gauge.id
}

resource "azurerm_public_ip" "generator" {
  for_each            = { for name, role in local.machines : name => role if role == "generator" }
  name                = "${var.name}-${each.key}"
  location            = azurerm_resource_group.gauge.location
  resource_group_name = azurerm_resource_group.gauge.name
  allocation_method   = "Static"
  sku                 = "Standard"
  tags                = { expires = var.expires }
}

resource "azurerm_network_interface" "gauge" {
  for_each                       = local.machines
  name                           = "${var.name}-${each.key}"
  location                       = azurerm_resource_group.gauge.location
  resource_group_name            = azurerm_resource_group.gauge.name
  accelerated_networking_enabled = true
  tags                           = { expires = var.expires }

  ip_configuration {
    name                          = "machine"
    subnet_id                     = azurerm_subnet.gauge.id
    private_ip_address_allocation = "Dynamic"
    public_ip_address_id          = each.value == "generator" ? azurerm_public_ip.generator[each.key].id : null
  }
}

resource "azurerm_linux_virtual_machine" "gauge" {
  for_each                     = local.machines
  name                         = "${var.name}-${each.key}"
  location                     = azurerm_resource_group.gauge.location
  resource_group_name          = azurerm_resource_group.gauge.name
  size                         = var.machine
  zone                         = var.zone
  proximity_placement_group_id = azurerm_proximity_placement_group.gauge.id
  network_interface_ids        = [azurerm_network_interface.gauge[each.key].id]
  admin_username               = "gauge"
  tags                         = { expires = var.expires, role = each.value }

  admin_ssh_key {
    username   = "gauge"
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
}
