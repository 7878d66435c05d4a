const took = new Trend(byScenario('gauge_took'), true);
const kind = (code, error) => {
  if (code === 1050 || code === 1211) return 'timeout';
  if ((code >= 1100 && code < 1200) || (code >= 1210 && code < 1220)) return 'connect';
  if ((code >= 1200 && code < 1300) || /EOF|reset|closed/.test(error)) return 'reset';
  return 'invalid';
};
// Codes from 1400 to 1599 are those of complete responses.
const request = (method, url, body, params, expected) => {
  const r = http.request(method, url, body, params);
  const code = r.error_code;
  if (r.status === 0 || (code >= 1000 && code < 1400) || code >= 1600) {
    lost[kind(code, r.error)].add(1);
  } else {
    took.add(r.timings.duration);
    responded(r.status, expected(r.status));
  }
  return r;
};
