/** Parameters as the Prometheus API reads them: from the URL and, with POST, from a form, which comes first. */
import { parse } from 'node:querystring'
import { SvcError } from 'svcdb/lib/errors'
import { tooManyMembers } from 'svcdb/lib/json'
import { invalidParameter } from './api-error.ts'

type Fields = Record<string, string | string[] | undefined>

/** A body of the type application/x-www-form-urlencoded; a class of its own so that other bodies are not taken for one. */
export class Form {
  readonly fields: Fields

  /** @param most fields. @throws BAD_REQUEST when there are more. */
  constructor(text: string, most = Number.POSITIVE_INFINITY) {
    let count = 1
    for (let at = text.indexOf('&'); at >= 0; at = text.indexOf('&', at + 1)) if (++count > most) throw tooManyMembers(most, 'form')
    this.fields = parse(text, '&', '=', { maxKeys: 0 })
  }
}

export class Params {
  private readonly form: Fields | undefined
  private readonly url: Fields

  /** @param body of a request; bytes are left to whoever asked for them. @throws UNSUPPORTED_MEDIA_TYPE for JSON that says something. */
  constructor(url: unknown, body: unknown) {
    if (!(body instanceof Form || body instanceof Uint8Array) && Object.keys(body ?? {}).length > 0)
      throw new SvcError(
        'UNSUPPORTED_MEDIA_TYPE',
        'cannot read parameters from a body of Content-Type "application/json"; send parameters as application/x-www-form-urlencoded, or in the URL',
      )
    this.url = url as Fields
    this.form = body instanceof Form ? body.fields : undefined
  }

  /** The first value, '' when there is none. */
  get(name: string): string {
    const value = this.form?.[name] ?? this.url[name]
    return (Array.isArray(value) ? value[0] : value) ?? ''
  }

  all(name: string): string[] {
    return [this.form?.[name] ?? [], this.url[name] ?? []].flat()
  }

  /** Milliseconds; absent: undefined. @throws bad_data. */
  time(name: string): number | undefined {
    const text = this.get(name)
    if (text === '') return undefined
    const ms = parseTime(text)
    if (ms === undefined) throw invalidParameter(name, `invalid time value for '${name}': cannot parse ${JSON.stringify(text)} to a valid timestamp`)
    return ms
  }

  /** As `time`, and it must be there. */
  requiredTime(name: string): number {
    const text = this.get(name)
    const ms = parseTime(text)
    if (ms === undefined) throw invalidParameter(name, `cannot parse ${JSON.stringify(text)} to a valid timestamp`)
    return ms
  }

  /** Milliseconds, with fractions; absent: undefined. @throws bad_data. */
  duration(name: string, refuse: (reason: string) => Error = (reason) => invalidParameter(name, reason)): number | undefined {
    const text = this.get(name)
    return text === '' ? undefined : durationOf(text, refuse)
  }

  requiredDuration(name: string): number {
    return durationOf(this.get(name), (reason) => invalidParameter(name, reason))
  }

  /** Milliseconds; absent: undefined. @throws bad_data, for what leaves no time. */
  timeout(): number | undefined {
    const ms = this.duration('timeout')
    if (ms !== undefined && ms <= 0) throw invalidParameter('timeout', `timeout must be positive, got ${ms / 1000}s`)
    return ms
  }

  /** 0 = none. @throws bad_data. */
  limit(): number {
    const text = this.get('limit')
    if (text === '') return 0
    const limit = integerOf(text)
    if (limit === undefined) {
      const reason = INTEGER.test(text) ? 'value out of range' : 'invalid syntax'
      throw invalidParameter('limit', `strconv.Atoi: parsing ${JSON.stringify(text)}: ${reason}`)
    }
    if (limit < 0) throw invalidParameter('limit', 'limit must be non-negative')
    return limit
  }
}

const INTEGER = /^[+-]?\d+$/

/** A decimal integer as Go's Atoi takes it, of 64 bits; one that a double does not hold exactly becomes the largest that it does. */
export function integerOf(text: string): number | undefined {
  if (!INTEGER.test(text) || text.length > MOST_DIGITS) return undefined
  const value = BigInt(text.replace('+', ''))
  if (BigInt.asIntN(64, value) !== value) return undefined
  return Math.max(-Number.MAX_SAFE_INTEGER, Math.min(Number(value), Number.MAX_SAFE_INTEGER))
}

/** Zeros before a number count as well. */
const MOST_DIGITS = 64

const FLOAT = /^[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:e[+-]?\d+)?$/i
const RFC3339 = /^(\d{4})-(\d\d)-(\d\d)[Tt](\d\d):(\d\d):(\d\d)(?:[.,](\d+))?(?:[Zz]|([+-])(\d\d):(\d\d))$/
/** What Prometheus writes for the ends of time. */
const ENDS: Record<string, number> = { '-292273086-05-16T16:47:06Z': -9_223_309_901_257_974, '292277025-08-18T07:12:54.999999999Z': 9_223_309_901_257_974 }
/** Times beyond this many milliseconds are not exact as numbers, and mean "from the beginning" or "to the end". */
const MAX_MS = 2 ** 53 - 1

/** Seconds since the epoch with a fraction, or RFC 3339. @returns whole milliseconds, undefined for anything else. */
export function parseTime(text: string): number | undefined {
  if (FLOAT.test(text)) {
    const seconds = Number(text)
    if (!Number.isFinite(seconds)) return undefined
    const whole = Math.trunc(seconds)
    const fraction = (seconds - whole) * 1000
    return clamp(whole * 1000 + Math.sign(fraction) * Math.round(Math.abs(fraction)))
  }
  const match = RFC3339.exec(text)
  if (match === null) return ENDS[text]
  const [, year, month, day, hour, minute, second, fraction = '', sign, offsetHours, offsetMinutes] = match
  const daysInMonth = new Date(Date.UTC(2000 + (Number(year) % 400), Number(month), 0)).getUTCDate()
  if (Number(month) < 1 || Number(month) > 12 || Number(day) < 1 || Number(day) > daysInMonth) return undefined
  if (Number(hour) > 23 || Number(minute) > 59 || Number(second) > 59) return undefined
  if (sign !== undefined && (Number(offsetHours) > 23 || Number(offsetMinutes) > 59)) return undefined
  const date = new Date(0)
  date.setUTCFullYear(Number(year), Number(month) - 1, Number(day))
  date.setUTCHours(Number(hour), Number(minute), Number(second), Number(fraction.slice(0, 3).padEnd(3, '0')))
  const offset = sign === undefined ? 0 : (Number(offsetHours) * 60 + Number(offsetMinutes)) * (sign === '-' ? -60_000 : 60_000)
  return date.getTime() - offset
}

function clamp(ms: number): number {
  return Math.max(-MAX_MS, Math.min(MAX_MS, ms))
}

const DURATION = /^(?:(\d+)y)?(?:(\d+)w)?(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?(?:(\d+)ms)?$/
const UNITS = [365 * 86_400_000, 7 * 86_400_000, 86_400_000, 3_600_000, 60_000, 1000, 1]
/** An int64 of nanoseconds. */
const MAX_DURATION_MS = 2 ** 63 / 1e6

function durationOf(text: string, refuse: (reason: string) => Error): number {
  if (FLOAT.test(text)) {
    const ms = Number(text) * 1000
    if (Math.abs(ms) > MAX_DURATION_MS) throw refuse(`cannot parse ${JSON.stringify(text)} to a valid duration. It overflows int64`)
    return ms
  }
  const match = text === '' ? null : DURATION.exec(text)
  const ms = match === null ? Number.NaN : UNITS.reduce((sum, unit, i) => sum + unit * Number(match[i + 1] ?? 0), 0)
  if (!(ms <= MAX_DURATION_MS)) throw refuse(`cannot parse ${JSON.stringify(text)} to a valid duration`)
  return ms
}
