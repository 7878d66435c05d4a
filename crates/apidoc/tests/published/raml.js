// raml.js FILE...: the reference parser of RAML (AMF) must read and validate each file; prints one line a fault.
const { WebApiParser } = require('webapi-parser')
const path = require('path')

async function check (file) {
  const model = await WebApiParser.raml10.parse('file://' + path.resolve(file))
  const report = await WebApiParser.raml10.validate(model)
  return report.results.filter(r => r.level === 'Violation').map(r => r.message)
}

async function main () {
  let failed = 0
  const files = process.argv.slice(2)
  for (const file of files) {
    let faults
    try {
      faults = await check(file)
    } catch (error) {
      faults = [String(error).slice(0, 300)]
    }
    if (faults.length > 0) {
      failed++
      for (const fault of faults.slice(0, 5)) console.log(`FAILED RAML ${path.basename(file)}: ${fault}`)
    }
  }
  console.log(`raml ${files.length - failed} ${failed}`)
}

main()
