/**
 * Records of effects as they mostly are, read as far as somebody asks: a replay needs of a beginning what was to be done, as text, and of an end what the effect
 * gave. What looks otherwise in any way is none of them, and is read as a whole. Only for records whose hashes were checked.
 */
import { decode, type JournalRecord, type Payload } from './record.ts'

const STARTED = '{"attempt":1,"backoff_ms":0,'
const DESCRIPTOR = '"descriptor":'
const CASE = /"case":"(case_[0-9A-Z]{26})",/y
const KEY_MARK = '"effect_key":"'
const KEY_DIGITS = 64
const EPOCH = '","epoch":'
const MUTATES = ',"kind":"EffectStarted","mutates":true,"recovery":{'
const READS = ',"kind":"EffectStarted","mutates":false,"recovery":{'
/** No mode has more, nor has a key of an effect. */
const MAX_RECOVERY = 128
const KEY_BEHIND = `,${KEY_MARK}`
const KIND_MARK = ',"kind":"'
const KIND_END = '"},'

const DONE = '"declared":{"sensitivity":"internal","trust":"untrusted"},"effect_key":"'
const OUTPUT = ',"kind":"EffectDone","output":'
const PHASE = ',"phase":"compensating"'
const VERSION = ',"v":1}'
const ZERO = 48

/** Where the end of a record begins that has nothing behind its step, and the step; undefined = it has. */
function endOf(raw: string, run: string, seq: number): { at: number; step: number } | undefined {
  const end = `,"run":"${run}","seq":${seq},"step":`
  const at = raw.lastIndexOf(end)
  if (at < 0 || !raw.endsWith(VERSION)) return undefined
  let step = 0
  for (let i = at + end.length; i < raw.length - VERSION.length; i++) {
    const code = raw.charCodeAt(i)
    if (!isDigit(code)) return undefined
    step = step * 10 + code - ZERO
  }
  return { at, step }
}

/** Behind the member `epoch`, which ends a text before it; 0 = it is not there. */
function behindEpoch(raw: string, at: number): number {
  if (!raw.startsWith(EPOCH, at)) return 0
  let end = at + EPOCH.length
  while (isDigit(raw.charCodeAt(end))) end++
  return end
}

const isDigit = (code: number): boolean => code >= ZERO && code <= ZERO + 9

abstract class EffectRecord {
  readonly run: string
  readonly seq: number
  readonly step: number
  protected readonly raw: string
  private readonly keyAt: number

  constructor(raw: string, run: string, seq: number, step: number, keyAt: number) {
    this.raw = raw
    this.run = run
    this.seq = seq
    this.step = step
    this.keyAt = keyAt
  }

  get effectKey(): string {
    return this.raw.slice(this.keyAt, this.keyAt + KEY_DIGITS)
  }

  get epoch(): number {
    return decode(this.raw).epoch
  }

  get case(): string | undefined {
    return decode(this.raw).case
  }
}

/** The first attempt of an effect of a step. */
export class StartedRecord extends EffectRecord {
  private readonly from: number
  private readonly kindAt: number
  private readonly kindEnd: number
  private whole: Payload | undefined

  private constructor(raw: string, run: string, seq: number, step: number, keyAt: number, from: number, kindAt: number, kindEnd: number) {
    super(raw, run, seq, step, keyAt)
    this.from = from
    this.kindAt = kindAt
    this.kindEnd = kindEnd
  }

  get kind(): 'EffectStarted' {
    return 'EffectStarted'
  }

  static read(raw: string, run: string, seq: number): StartedRecord | undefined {
    if (!raw.startsWith(STARTED)) return undefined
    const from = STARTED.length + caseLength(raw, STARTED.length)
    const end = endOf(raw, run, seq)
    if (end === undefined || !raw.startsWith(DESCRIPTOR, from)) return undefined
    // An argument may be called so as well: then what is behind it looks otherwise.
    const at = raw.indexOf(KEY_MARK, from)
    const rest = behindEpoch(raw, at + KEY_MARK.length + KEY_DIGITS)
    const recovery = rest + (raw.startsWith(MUTATES, rest) ? MUTATES.length : raw.startsWith(READS, rest) ? READS.length : raw.length)
    if (end.at <= recovery || end.at > recovery + MAX_RECOVERY || raw[end.at - 1] !== '}') return undefined
    const kindAt = raw.lastIndexOf(KIND_MARK, at) + KIND_MARK.length
    return new StartedRecord(raw, run, seq, end.step, at + KEY_MARK.length, from + DESCRIPTOR.length, kindAt, at - KIND_END.length)
  }

  /** Of the effect, as it is written in JSON. */
  get effectKind(): string {
    return this.raw.slice(this.kindAt, this.kindEnd)
  }

  /** @param descriptor canonical text of the members `args` and `kind`. */
  isOf(descriptor: string): boolean {
    return this.raw.startsWith(descriptor, this.from) && this.raw.startsWith(KEY_BEHIND, this.from + descriptor.length)
  }

  get payload(): Payload {
    this.whole ??= decode(this.raw).payload
    return this.whole
  }
}

/** The end of an effect of a step that has gone well, of which nothing is known but what it gave. */
export class DoneRecord extends EffectRecord {
  private readonly from: number
  private readonly to: number
  private whole: Payload | undefined

  private constructor(raw: string, run: string, seq: number, step: number, keyAt: number, from: number, to: number) {
    super(raw, run, seq, step, keyAt)
    this.from = from
    this.to = to
  }

  get kind(): 'EffectDone' {
    return 'EffectDone'
  }

  static read(raw: string, run: string, seq: number): DoneRecord | undefined {
    const begin = 1 + caseLength(raw, 1)
    if (!raw.startsWith(DONE, begin)) return undefined
    const keyAt = begin + DONE.length
    const rest = behindEpoch(raw, keyAt + KEY_DIGITS)
    const end = endOf(raw, run, seq)
    if (end === undefined || !raw.startsWith(OUTPUT, rest) || raw.endsWith(PHASE, end.at)) return undefined
    return new DoneRecord(raw, run, seq, end.step, keyAt, rest + OUTPUT.length, end.at)
  }

  get payload(): Payload {
    this.whole ??= { output: JSON.parse(this.raw.slice(this.from, this.to)), declared: { sensitivity: 'internal', trust: 'untrusted' } }
    return this.whole
  }
}

/** Of the member `case`, as it is written. */
function caseLength(raw: string, at: number): number {
  if (!raw.startsWith('"case":', at)) return 0
  CASE.lastIndex = at
  return CASE.test(raw) ? CASE.lastIndex - at : 0
}

/** As `decode`, without reading what nobody may ask for. @param run that it is of. @param seq that it has. */
export function lazily(raw: string, run: string, seq: number): JournalRecord {
  return (StartedRecord.read(raw, run, seq) ?? DoneRecord.read(raw, run, seq) ?? decode(raw)) as JournalRecord
}
