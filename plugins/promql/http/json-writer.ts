/** Times, points and floats in the form of the Prometheus API, as bytes. */
import { JsonBytes, NUMBER_BYTES } from 'svcdb/lib/json'

/** Seconds that have the same digits before their last four: adjacent times mostly do. */
const GROUP = 10_000

const QUOTE = 0x22
const COMMA = 0x2c
const MINUS = 0x2d
const POINT = 0x2e
const ZERO = 0x30

export class JsonWriter extends JsonBytes {
  private group = 0
  private readonly groupDigits = new Uint8Array(NUMBER_BYTES)
  private groupLength = 0

  /** `[seconds,"value"]`. */
  point(ms: number, value: number): void {
    this.room(2 * NUMBER_BYTES + 3)
    this.bytes[this.at++] = 0x5b
    this.time(ms)
    this.bytes[this.at++] = COMMA
    this.number(value)
    this.bytes[this.at++] = 0x5d
  }

  /** `[seconds,"value"]` of a value at a step. In an array it is a number without an object of its own. */
  pointAt(times: StepTexts, step: number, values: Float64Array, at: number): void {
    this.room(2 * NUMBER_BYTES + 3)
    this.putPart(times.bytes, times.ends[step], times.ends[step + 1])
    this.number(values[at])
    this.bytes[this.at++] = 0x5d
  }

  /** Whole milliseconds as seconds with up to three decimals. Needs room. */
  time(ms: number): void {
    let rest = ms
    if (ms < 0) {
      this.bytes[this.at++] = MINUS
      rest = -ms
    }
    const seconds = Math.floor(rest / 1000)
    if (seconds < GROUP) this.integer(seconds)
    else this.grouped(seconds)
    const fraction = rest - seconds * 1000
    if (fraction === 0) return
    const { bytes } = this
    bytes[this.at++] = POINT
    bytes[this.at++] = ZERO + ((fraction / 100) | 0)
    bytes[this.at++] = ZERO + (((fraction / 10) | 0) % 10)
    bytes[this.at++] = ZERO + (fraction % 10)
  }

  private grouped(seconds: number): void {
    const group = Math.floor(seconds / GROUP)
    const { bytes, groupDigits } = this
    if (group === this.group) {
      for (let i = 0; i < this.groupLength; i++) bytes[this.at + i] = groupDigits[i]
      this.at += this.groupLength
    } else {
      const start = this.at
      this.integer(group)
      this.group = group
      this.groupLength = this.at - start
      for (let i = 0; i < this.groupLength; i++) groupDigits[i] = bytes[start + i]
    }
    this.digits(seconds - group * GROUP, 4)
  }

  /** A float in quotes. Needs room. */
  number(value: number): void {
    this.bytes[this.at++] = QUOTE
    const magnitude = value < 0 ? -value : value
    if (magnitude <= 1e15 && Math.floor(magnitude) === magnitude && !(value === 0 && Object.is(value, -0))) {
      if (value < 0) this.bytes[this.at++] = MINUS
      this.integer(magnitude)
    } else if (!this.decimal(value, magnitude)) this.ascii(floatText(value))
    this.bytes[this.at++] = QUOTE
  }
}

/** The beginnings of the points of each step, `[seconds,`, which all series have in common. */
export class StepTexts {
  readonly bytes: Uint8Array
  /** Step i has the bytes [ends[i], ends[i + 1]). */
  readonly ends: Int32Array

  /** @param start and `interval`: milliseconds. */
  constructor(start: number, interval: number, count: number) {
    const json = new JsonWriter()
    this.ends = new Int32Array(count + 1)
    for (let step = 0; step < count; step++) {
      json.raw('[')
      json.room(NUMBER_BYTES)
      json.time(start + step * interval)
      json.raw(',')
      this.ends[step + 1] = json.length
    }
    this.bytes = json.take()
    json.close()
  }
}

/**
 * A float as the Prometheus API has it: the shortest digits that read back as the same number, without exponent from 1e-6 up to 1e21. JavaScript
 * chooses the same form; only names and the exponent's two digits differ.
 */
export function floatText(value: number): string {
  if (Number.isNaN(value)) return 'NaN'
  if (value === Number.POSITIVE_INFINITY) return '+Inf'
  if (value === Number.NEGATIVE_INFINITY) return '-Inf'
  if (value === 0) return Object.is(value, -0) ? '-0' : '0'
  const text = String(value)
  const magnitude = value < 0 ? -value : value
  if (magnitude >= 1e-6 && magnitude < 1e21) return text
  const digits = text.indexOf('e') + 2
  return digits === text.length - 1 ? `${text.slice(0, digits)}0${text.slice(digits)}` : text
}
