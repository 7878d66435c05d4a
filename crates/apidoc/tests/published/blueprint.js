// blueprint.js DESCRIBE FILE...: the reference parser of API Blueprint (drafter) and apidoc must find the same operations,
// with the same variables and the same media types of requests; prints one line a difference.
const drafter = require('drafter.js')
const fs = require('fs')
const path = require('path')
const { execFileSync } = require('child_process')

// The methods that are read; for others there is a warning.
const METHODS = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'TRACE']

const of = (element, name) => element?.attributes?.[name]
const text = element => (typeof element === 'string' ? element : element?.content)
const children = element => (Array.isArray(element?.content) ? element.content : [])

// Variables of a template, those of the query apart.
function variables (href) {
  const path = []
  const query = []
  for (const [, operator, names] of href.matchAll(/\{([?&#+/.;]?)([^}]*)\}/g)) {
    if (operator === '#') continue
    for (const name of names.split(',')) (operator === '?' || operator === '&' ? query : path).push(name.replace('*', ''))
  }
  return { path: path.sort(), query: query.sort() }
}

// What drafter finds: method, template, media types of requests.
function reference (source) {
  const found = []
  const visit = (element, resource) => {
    if (element.element === 'resource') resource = text(of(element, 'href'))
    if (element.element === 'transition') {
      const href = text(of(element, 'href')) ?? resource
      const requests = children(element).map(t => children(t).find(c => c.element === 'httpRequest')).filter(Boolean)
      const method = requests.map(r => text(of(r, 'method'))).find(Boolean)
      const types = requests.filter(r => children(r).some(c => c.element === 'asset' || c.element === 'dataStructure')).map(r => {
        const header = children(of(r, 'headers')).find(h => text(h.content?.key) === 'Content-Type')
        return text(header?.content?.value) ?? ''
      })
      if (METHODS.includes(method)) found.push({ method, ...variables(href), types: [...new Set(types)].filter(Boolean).sort() })
    }
    for (const child of children(element)) visit(child, resource)
  }
  visit(drafter.parseSync(source, {}), '')
  return found
}

function ours (describe, file) {
  const api = JSON.parse(execFileSync(describe, [file], { stdio: ['ignore', 'pipe', 'ignore'], maxBuffer: 1 << 28 }))
  return api.operations.map(o => ({
    method: o.method,
    path: Object.keys(o.path_params ?? {}).sort(),
    query: Object.keys(o.query_params ?? {}).sort(),
    types: o.body?.example === undefined ? [] : [o.body.media_type, ...(o.body.other_media_types ?? [])].sort()
  }))
}

const [describe, ...files] = process.argv.slice(2)
let failed = 0
for (const file of files) {
  const expected = reference(fs.readFileSync(file, 'utf8'))
  const found = ours(describe, file)
  const different = expected.filter((e, i) => JSON.stringify(e) !== JSON.stringify(found[i]))
  if (different.length > 0 || expected.length !== found.length) {
    failed++
    console.log(`FAILED API Blueprint ${path.basename(file)}: drafter finds ${JSON.stringify(expected)}, apidoc ${JSON.stringify(found)}`)
  }
}
console.log(`blueprint ${files.length - failed} ${failed}`)
