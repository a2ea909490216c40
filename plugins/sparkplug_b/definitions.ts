/** What a birth says of the metrics to come: their names, aliases and types. Tables do not change once they are made: messages under way keep theirs. */
import type { Work } from 'svcdb/lib/event-loop'
import { ProtobufReader } from 'svcdb/lib/protobuf'
import {
  type Alias,
  type Head,
  INT_VALUE,
  isDefinition,
  LONG_VALUE,
  MEMBERS,
  METRICS,
  Metric,
  readHead,
  readOfHead,
  TEMPLATE,
  TEMPLATE_VALUE,
  UNKNOWN,
} from './payload.ts'

/** Metrics between two places where the work can be interrupted. */
export const SLICE = 64
/** Templates within templates. */
export const MAX_DEPTH = 8
export const BD_SEQ = 'bdSeq'
/** Characters of the name of a template whose members are read: each of theirs begins with it, and no engine takes a longer one. */
export const MAX_PARENT = 4096
/** Characters of a name that count as one metric. */
const NAME_UNIT = 128

export interface Definition {
  name: string
  type: number
}

export interface Definitions {
  /** Of the birth, milliseconds since the Unix epoch. */
  time: number | undefined
  aliases: ReadonlyMap<Alias, Definition>
  byName: ReadonlyMap<string, Definition>
  /** Metrics; long names count as several. */
  weight: number
}

export interface Birth extends Head {
  definitions: Definitions
  /** Number of the session, which its death has too. */
  bdSeq: number | undefined
}

export class BirthReader {
  private readonly reader = new ProtobufReader()
  private readonly metric = new Metric()
  private readonly most: number

  /** @param most weight of a birth whose names are all read: of one that is heavier, nothing is kept. */
  constructor(most: number = Number.POSITIVE_INFINITY) {
    this.most = most
  }

  /** @throws BAD_REQUEST. */
  head(body: Uint8Array): Head {
    try {
      return readHead(this.reader, body)
    } finally {
      this.reader.release()
    }
  }

  /** Of a death too, which has its number only. @throws BAD_REQUEST. */
  *birth(body: Uint8Array): Work<Birth> {
    const aliases = new Map<Alias, Definition>()
    const names = new Names(this.most)
    const { byName } = names
    const head: Head = { time: undefined, seq: undefined }
    let bdSeq: number | undefined
    const { reader, metric } = this
    try {
      reader.begin(body)
      for (let count = 1; reader.next(); count++) {
        if (count % SLICE === 0) yield
        if (reader.field !== METRICS) {
          if (!readOfHead(reader, head)) reader.skip()
          continue
        }
        metric.read(reader)
        if (metric.name === undefined) continue
        if (metric.name === BD_SEQ && (metric.value === LONG_VALUE || metric.value === INT_VALUE)) bdSeq = (metric.high >>> 0) * 2 ** 32 + (metric.low >>> 0)
        const definition = { name: metric.name, type: metric.type }
        names.set(definition)
        if (metric.alias !== undefined) aliases.set(metric.alias, definition)
        if (metric.value === TEMPLATE_VALUE) yield* membersOf(reader.bytes.subarray(metric.start, metric.end), metric.name, names, 1)
      }
      return { ...head, bdSeq, definitions: { time: head.time, aliases, byName, weight: Math.max(names.weight, aliases.size) } }
    } finally {
      reader.release()
    }
  }
}

/** Those of a birth by name. Members of a template have its name in theirs: a message of a megabyte may have gigabytes of names. */
class Names {
  readonly byName = new Map<string, Definition>()
  weight = 0
  private readonly most: number

  constructor(most: number) {
    this.most = most
  }

  set(definition: Definition): void {
    const { name } = definition
    if (this.weight > this.most || !this.byName.has(name)) this.weight += 1 + Math.floor(name.length / NAME_UNIT)
    if (this.weight <= this.most) this.byName.set(name, definition)
  }
}

/** Members of an instance of a template, by the names that they are stored under. */
function* membersOf(bytes: Uint8Array, parent: string, names: Names, depth: number): Work<void> {
  if (parent.length > MAX_PARENT) return
  const reader = new ProtobufReader()
  reader.begin(bytes)
  if (isDefinition(reader) || depth > MAX_DEPTH) return
  const metric = new Metric()
  reader.begin(bytes)
  for (let count = 1; reader.next(); count++) {
    if (count % SLICE === 0) yield
    if (reader.field !== MEMBERS) {
      reader.skip()
      continue
    }
    metric.read(reader)
    if (metric.name === undefined) continue
    const name = `${parent}/${metric.name}`
    if (metric.type !== UNKNOWN && metric.type !== TEMPLATE) names.set({ name, type: metric.type })
    if (metric.value === TEMPLATE_VALUE) yield* membersOf(bytes.subarray(metric.start, metric.end), name, names, depth + 1)
  }
}
