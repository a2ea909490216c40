/** The body of an export, and the name of the file it asks for. */
import { SvcError } from 'svcdb/lib/errors'
import { checkJsonBounds, jsonProblem } from 'svcdb/lib/json'

interface ExportPlan {
  measurement: string
  /** Nanoseconds, start included, end not. */
  start?: bigint
  end?: bigint
  outputPath?: string
}

const EXTENSION = '.parquet'
/** Bytes of a name that is asked for, and characters of a measurement that go into a name: file systems take 255 bytes, and a file under way has a longer name. */
const MAX_NAME_BYTES = 200
const MEASUREMENT_CHARACTERS = 100
const MAX_INT64 = 2n ** 63n - 1n
const MIN_INT64 = -(2n ** 63n)
const SHOWN = 100
/** Far more than an export has: parsing with a reviver costs much for each member. */
const BOUNDS = { depth: 8, members: 256 }

/** An integer as it was written. */
class Digits {
  readonly text: string

  constructor(text: string) {
    this.text = text
  }
}

type Members = Record<string, unknown>

/** @throws INVALID_REQUEST naming the member, INVALID_BODY where one is missing. */
export function parseExport(body: Uint8Array): ExportPlan {
  checkJsonBounds(body, BOUNDS, 'an export has measurement, range, start, end and output_path')
  const all = members(parseJson(body), '')
  const plan: ExportPlan = { measurement: '' }
  for (const [name, value] of Object.entries(all)) {
    if (name === 'measurement') plan.measurement = text(value, name)
    else if (name === 'output_path') plan.outputPath = text(value, name)
    else if (name === 'start' || name === 'end') plan[name] = nanos(value, name)
    else if (name === 'range') {
      for (const [side, bound] of Object.entries(members(value, name))) {
        if (side !== 'start' && side !== 'end') throw refusal(`range.${side.slice(0, SHOWN)}`, 'is not a known member; a range has start and end')
        if (all[side] !== undefined) throw refusal(`range.${side}`, `is given twice; leave out "${side}" beside "range"`)
        plan[side] = nanos(bound, `range.${side}`)
      }
    } else throw refusal(name.slice(0, SHOWN), 'is not a known member; an export has measurement, range, start, end and output_path')
  }
  if (all.measurement === undefined) throw new SvcError('INVALID_BODY', 'cannot export: "measurement" is missing; name the measurement to export')
  if (plan.measurement === '') throw refusal('measurement', 'is empty; name the measurement to export')
  if (plan.start !== undefined && plan.end !== undefined && plan.start > plan.end) throw refusal('start', 'is after end')
  return plan
}

/** The last part of a path, with either slash, as the name of a Parquet file. @throws INVALID_REQUEST for one that cannot be a name of its own. */
export function fileName(outputPath: string): string {
  const name = outputPath.slice(Math.max(outputPath.lastIndexOf('/'), outputPath.lastIndexOf('\\')) + 1)
  if (name === '') throw refusal('output_path', `"${outputPath.slice(0, SHOWN)}" has no file name`)
  if (name.startsWith('.')) throw refusal('output_path', 'has a file name that begins with a dot; choose another one')
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
  if (/[\u0000-\u001f\u007f]/.test(name) || !name.isWellFormed())
    throw refusal('output_path', 'has characters that no file name should have; use printable ones')
  const whole = name.toLowerCase().endsWith(EXTENSION) ? name : name + EXTENSION
  if (Buffer.byteLength(whole) > MAX_NAME_BYTES) throw refusal('output_path', `has a file name of more than ${MAX_NAME_BYTES} bytes; choose a shorter one`)
  return whole
}

/** `<measurement>-<instant>.parquet`; characters that mean something to a file system or a shell become "_". @param now milliseconds since the Unix epoch. */
export function defaultName(measurement: string, now: number): string {
  const safe = measurement
    .slice(0, MEASUREMENT_CHARACTERS)
    .replace(/[^A-Za-z0-9._-]/g, '_')
    .replace(/^[.-]+/, '_')
  return `${safe}-${new Date(now).toISOString().replace(/[-:.]/g, '')}${EXTENSION}`
}

function parseJson(body: Uint8Array): unknown {
  try {
    // The text of a number is what was sent; its value may have lost digits.
    const keepDigits = (_key: string, value: unknown, context?: { source?: string }): unknown =>
      typeof value === 'number' && context?.source !== undefined ? new Digits(context.source) : value
    return JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(body), keepDigits as (key: string, value: unknown) => unknown)
  } catch (error) {
    throw new SvcError('INVALID_REQUEST', `cannot read the export: the body is not JSON: ${jsonProblem(error as Error)}`)
  }
}

function members(value: unknown, name: string): Members {
  if (typeof value === 'object' && value !== null && !Array.isArray(value) && !(value instanceof Digits)) return value as Members
  throw refusal(name === '' ? 'the body' : name, 'is not an object')
}

function text(value: unknown, name: string): string {
  if (typeof value === 'string') return value
  throw refusal(name, 'is not a string')
}

/** An integer, or its digits as a string for clients whose numbers are doubles. */
function nanos(value: unknown, name: string): bigint {
  const digits = value instanceof Digits ? value.text : value
  if (typeof digits !== 'string' || !/^-?\d{1,19}$/.test(digits)) throw refusal(name, 'is not an integer of nanoseconds since the Unix epoch')
  const time = BigInt(digits)
  if (time > MAX_INT64 || time < MIN_INT64) throw refusal(name, 'does not fit into 64 bits')
  return time
}

function refusal(name: string, cause: string): SvcError {
  return new SvcError('INVALID_REQUEST', `cannot export: ${name === 'the body' ? name : `"${name}"`} ${cause}`)
}
