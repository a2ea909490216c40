/** Ids, effect keys and instants. */
import { hash } from 'node:crypto'
import { canonical } from './canonical.ts'

const DIGITS = '0123456789ABCDEFGHJKMNPQRSTVWXYZ'
const RUN = /^run_[0-7][0-9A-HJKMNP-TV-Z]{25}$/
const CASE = /^case_[0-7][0-9A-HJKMNP-TV-Z]{25}$/
const TIME_DIGITS = 10
const RANDOM_DIGITS = 16

/** `run_` and a ULID. @param now milliseconds since the Unix epoch. @param random in [0, 1). */
export function newRunId(now: number, random: () => number): string {
  return `run_${ulid(now, random)}`
}

/** `case_` and a ULID, likewise. */
export function newCaseId(now: number, random: () => number): string {
  return `case_${ulid(now, random)}`
}

function ulid(now: number, random: () => number): string {
  let time = ''
  for (let rest = Math.floor(now), i = 0; i < TIME_DIGITS; i++, rest = Math.floor(rest / 32)) time = DIGITS[rest % 32] + time
  const chance = Array.from({ length: RANDOM_DIGITS }, () => DIGITS[Math.floor(random() * 32)])
  return `${time}${chance.join('')}`
}

/** When a run was begun, milliseconds since the Unix epoch. */
export function timeOfRun(run: string): number {
  return [...run.slice('run_'.length, 'run_'.length + TIME_DIGITS)].reduce((time, digit) => time * 32 + DIGITS.indexOf(digit), 0)
}

export function isRunId(text: string): boolean {
  return RUN.test(text)
}

export function isCaseId(text: string): boolean {
  return CASE.test(text)
}

/** Sorts as the id of a run or a case does, the other way round. */
export function newestFirst(id: string): string {
  return [...id.slice(id.indexOf('_') + 1)].map((digit) => DIGITS[31 - DIGITS.indexOf(digit)]).join('')
}

interface EffectPlace {
  step: number
  phase: 'forward' | 'compensating'
  /** Of the effects of a step in this phase, from 0. */
  ordinal: number
  /** From 1. */
  attempt: number
  kind: string
  /** Canonical JSON. */
  args: string
}

const KEY_DOMAIN = Buffer.from('svc.effect.key.v1\0')
const NUMBERS = 21
/** UTF-8 takes three bytes for a UTF-16 unit at most. */
const MAX_UNIT_BYTES = 3
const scratch = Buffer.alloc(8 << 10)
KEY_DOMAIN.copy(scratch)

/** 64 hexadecimal digits: SHA-256 of a domain, step, phase, ordinal, attempt, kind with its length, and canonical arguments. */
export function effectKey({ step, phase, ordinal, attempt, kind, args }: EffectPlace): string {
  const start = KEY_DOMAIN.length
  const most = start + NUMBERS + (kind.length + args.length) * MAX_UNIT_BYTES
  const bytes = most <= scratch.length ? scratch : Buffer.concat([KEY_DOMAIN, Buffer.alloc(most - start)])
  bytes.writeUInt32BE(step, start)
  bytes.writeUInt8(phase === 'forward' ? 0 : 1, start + 4)
  bytes.writeUInt32BE(ordinal, start + 5)
  bytes.writeUInt32BE(attempt, start + 9)
  let end = start + NUMBERS
  const length = bytes.write(kind, end)
  // The upper half of eight bytes.
  bytes.writeUInt32BE(0, start + 13)
  bytes.writeUInt32BE(length, start + 17)
  end += length
  end += bytes.write(args, end)
  return hash('sha256', bytes.subarray(0, end))
}

export function digest(domain: string, value: unknown): string {
  return hash('sha256', `${domain}\0${canonical(value)}`)
}

/** RFC 3339 in UTC, without a fraction for whole seconds. */
export function instant(ms: number): string {
  return new Date(ms).toISOString().replace('.000Z', 'Z')
}
