/**
 * Rows of a cell as line protocol, far cheaper to make than to store: texts are of fixed width, so that a body is a template in which digits change.
 *
 *     cpu,dc=dc_42,host=host_0000042,region=region_2 user=50.1,system=12.9,idle=77.0 1700000000
 */
const TAGS = 'cpu,dc=dc_00,host=host_0000000,region=region_0 '
const VALUES = 'user=00.0,system=00.0,idle=00.0 '
const TIME = '0000000000\n'
const ROW = TAGS.length + VALUES.length + TIME.length
const DC_AT = TAGS.indexOf('dc_') + 3
const HOST_AT = TAGS.indexOf('host_') + 5
const REGION_AT = TAGS.indexOf('region_') + 7
const VALUE_AT = ['user=', 'system=', 'idle='].map((name) => TAGS.length + VALUES.indexOf(name) + name.length)
const TIME_AT = TAGS.length + VALUES.length

const HOST_DIGITS = 7
export const FIELDS = VALUE_AT.length
/** Seconds between two rows of a series. */
export const STEP = 10
/** Values are tenths from 10.0 to 99.9, of as many digits each. */
const LOWEST = 100
const HIGHEST = 999

export const hostName = (host: number): string => `host_${String(host).padStart(HOST_DIGITS, '0')}`

export interface RowsOptions {
  /** The hosts to write, in order. */
  first: number
  hosts: number
  /** Rows of each host. */
  steps: number
  /** Of the first step, in seconds. */
  start: number
  rowsPerBody: number
}

/** All rows, a step at a time, each value a random walk. A body is valid until the next one is taken. */
export function* bodies({ first, hosts, steps, start, rowsPerBody }: RowsOptions): Generator<Buffer> {
  const walks = new Int16Array(hosts * FIELDS)
  let random = 0x2545f491 ^ first
  for (let i = 0; i < walks.length; i++) {
    random = xorshift(random)
    walks[i] = LOWEST + ((random >>> 8) % (HIGHEST - LOWEST + 1))
  }
  const body = Buffer.from((TAGS + VALUES + TIME).repeat(rowsPerBody))
  let rows = 0
  for (let step = 0; step < steps; step++) {
    for (let host = 0; host < hosts; host++) {
      const at = rows * ROW
      const number = first + host
      digits(body, at + HOST_AT, HOST_DIGITS, number)
      digits(body, at + DC_AT, 2, number % 100)
      digits(body, at + REGION_AT, 1, number % 10)
      random = xorshift(random)
      for (let field = 0, bits = random >>> 4; field < FIELDS; field++, bits >>>= 5) {
        const walk = host * FIELDS + field
        const tenths = Math.max(LOWEST, Math.min(HIGHEST, walks[walk] + (bits & 31) - 15))
        walks[walk] = tenths
        const place = at + VALUE_AT[field]
        digits(body, place, 2, Math.floor(tenths / 10))
        body[place + 3] = 48 + (tenths % 10)
      }
      digits(body, at + TIME_AT, 10, start + step * STEP)
      if (++rows === rowsPerBody) {
        yield body
        rows = 0
      }
    }
  }
  if (rows > 0) yield body.subarray(0, rows * ROW)
}

function digits(out: Buffer, at: number, count: number, value: number): void {
  for (let i = at + count - 1; i >= at; i--) {
    out[i] = 48 + (value % 10)
    value = Math.floor(value / 10)
  }
}

function xorshift(state: number): number {
  state ^= state << 13
  state ^= state >>> 17
  return state ^ (state << 5)
}
