/** The Magnus formula over columns: degrees Celsius and percent to degrees Celsius. */
import type { SqlFunctionBody } from 'svcdb'

export const dew_point: SqlFunctionBody = ([temperatures, humidities], rows) => {
  const [t, h] = [temperatures.values as Float64Array, humidities.values as Float64Array]
  const out = new Float64Array(rows)
  for (let i = 0; i < rows; i++) {
    const gamma = Math.log(h[i] / 100) + (17.62 * t[i]) / (243.12 + t[i])
    out[i] = (243.12 * gamma) / (17.62 - gamma)
  }
  return { values: out }
}
