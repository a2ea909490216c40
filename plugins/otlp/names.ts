/**
 * Names of OpenTelemetry in the form of Prometheus: the specification "Prometheus and OpenMetrics Compatibility", OTLP metric points to
 * Prometheus. Pure.
 */

/** Units of UCUM as OpenTelemetry writes them, in Prometheus' words. */
const UNITS: Record<string, string> = {
  d: 'days',
  h: 'hours',
  min: 'minutes',
  s: 'seconds',
  ms: 'milliseconds',
  us: 'microseconds',
  ns: 'nanoseconds',
  By: 'bytes',
  KiBy: 'kibibytes',
  MiBy: 'mebibytes',
  GiBy: 'gibibytes',
  TiBy: 'tibibytes',
  KBy: 'kilobytes',
  kBy: 'kilobytes',
  MBy: 'megabytes',
  GBy: 'gigabytes',
  TBy: 'terabytes',
  m: 'meters',
  V: 'volts',
  A: 'amperes',
  J: 'joules',
  W: 'watts',
  g: 'grams',
  Cel: 'celsius',
  Hz: 'hertz',
  '%': 'percent',
  '1': '',
}

/** What stands after a slash. */
const PER_UNITS: Record<string, string> = { s: 'second', min: 'minute', m: 'minute', h: 'hour', d: 'day', w: 'week', mo: 'month', y: 'year' }

interface MetricDescription {
  name: string
  unit: string
  /** A sum that only rises. */
  counter: boolean
  gauge: boolean
}

export function prometheusName({ name, unit, counter, gauge }: MetricDescription): string {
  let words = wordsOf(name)
  const add = (word: string): void => {
    if (word !== '' && !words.includes(word)) words.push(word)
  }
  const { main, per } = unitWords(unit)
  add(main)
  if (per !== '' && !words.includes(per)) words.push('per', per)
  // "1" is also sent for counts of things, so that only gauges are taken for ratios.
  if (gauge && unit === '1') words = [...words.filter((word) => word !== 'ratio'), 'ratio']
  if (counter) words = [...words.filter((word) => word !== 'total'), 'total']
  const joined = words.join('_')
  return /^[0-9]/.test(joined) ? `_${joined}` : joined
}

/** The unit as metadata says it, such as bytes_per_second. */
export function prometheusUnit(unit: string): string {
  if (unit === '1') return 'ratio'
  const { main, per } = unitWords(unit)
  return per === '' ? main : [main, 'per', per].filter((word) => word !== '').join('_')
}

export function prometheusLabel(key: string): string {
  const name = key.replace(/[^a-zA-Z0-9_]/g, '_').replace(/_{2,}/g, '_')
  return /^[0-9]/.test(name) ? `key_${name}` : name
}

function unitWords(unit: string): { main: string; per: string } {
  const [left, ...right] = unit.replace(/\{[^{}]*\}/g, '').split('/')
  const main = left.trim()
  const per = right.join('/').trim()
  return { main: clean(nameOf(UNITS, main)), per: clean(nameOf(PER_UNITS, per)) }
}

/** A unit may be called as what objects have already. */
function nameOf(names: Record<string, string>, unit: string): string {
  return Object.hasOwn(names, unit) ? names[unit] : unit
}

function clean(word: string): string {
  return wordsOf(word).join('_')
}

function wordsOf(text: string): string[] {
  return text.split(/[^a-zA-Z0-9:]+/).filter((word) => word !== '')
}
