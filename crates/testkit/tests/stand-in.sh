#!/bin/sh
# Stands in for the gateway in the tests of its harness: does what the variable says.
eval "$SCRIPT"
