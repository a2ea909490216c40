/**
 * Exemplars in memory, by namespace and series. Pure: time is handed in.
 *
 * Invariants
 * - Of a series they are in the order of their times, and no two are the same.
 * - `order` of a namespace has its series once for each exemplar that is kept, in the order in which they came: what is at its front has the oldest.
 * - Both bounds hold after each call of `add`.
 */
import type { Exemplar, ExemplarsOfSeries, Matcher, SeriesExemplar } from 'svcdb'
import type { Work } from 'svcdb/lib/event-loop'
import { TextPattern } from 'svcdb/lib/regex'

/** OpenMetrics, "Exemplars": names and values together, in characters. */
const MAX_LABEL_CHARACTERS = 128
/** Of the labels of a series, in characters; what is longer is no series that an engine takes. */
const MAX_SERIES_CHARACTERS = 65_536
/** What an exemplar, a series and a namespace take beside their texts, about. */
const EXEMPLAR_BYTES = 160
const SERIES_BYTES = 400
const NAME = '__name__'
const CLASSIC = ['_bucket', '_count', '_sum']
/** Series that a matcher is tried on between two places where a question can be interrupted. */
const SLICE = 512
/** What a regular expression may take of a slice: others wait for it. */
const PATTERN_MS = 20
/** Places at the front of a queue that may be empty. */
const MAX_EMPTY = 1024

type Refusal = 'out_of_order' | 'too_long' | 'too_old' | 'too_new'

export interface StoreOptions {
  maxExemplars: number
  maxBytes: number
  maxAgeMs: number
  /** How far ahead of the clock a time may be. */
  maxFutureMs: number
  /** Told of those that are not kept, and of those that gave way. */
  dropped(why: Refusal | 'evicted' | 'expired'): void
}

interface Series {
  key: string
  labels: readonly string[]
  histogram: boolean
  exemplars: Queue<Exemplar>
  bytes: number
}

/** Labels as they were given, and in order. */
interface LabelSet {
  given: readonly string[]
  labels: readonly string[]
  key: string
}

/** What is at its front goes without moving all that is behind it. */
class Queue<T> {
  private items: T[] = []
  private front = 0

  get length(): number {
    return this.items.length - this.front
  }

  first(): T {
    return this.items[this.front]
  }

  last(): T | undefined {
    return this.items.at(-1)
  }

  all(): T[] {
    return this.items.slice(this.front)
  }

  push(item: T): void {
    this.items.push(item)
  }

  shift(): T {
    const item = this.items[this.front]
    this.items[this.front++] = undefined as T
    if (this.front >= MAX_EMPTY && this.front * 2 >= this.items.length) {
      this.items = this.all()
      this.front = 0
    }
    return item
  }
}

class Namespace {
  readonly name: string
  readonly series = new Map<string, Series>()
  readonly order = new Queue<Series>()
  bytes = 0

  constructor(name: string) {
    this.name = name
  }

  get count(): number {
    return this.order.length
  }
}

export class ExemplarStore {
  count = 0
  bytes = 0
  private readonly namespaces = new Map<string, Namespace>()
  private readonly options: StoreOptions
  private last: LabelSet | undefined
  /** Namespaces of calls of `addAll` that are not done. */
  private readonly adding = new Set<{ namespace: string; deleted: boolean }>()

  constructor(options: StoreOptions) {
    this.options = options
  }

  get seriesCount(): number {
    let count = 0
    for (const { series } of this.namespaces.values()) count += series.size
    return count
  }

  /** As `Exemplars.add`. */
  *addAll(namespace: string, exemplars: readonly SeriesExemplar[], now: number): Work<number> {
    const call = { namespace, deleted: false }
    this.adding.add(call)
    let kept = 0
    try {
      for (const exemplar of exemplars) {
        if (this.add(namespace, exemplar, now)) kept++
        yield
        if (call.deleted) return 0
      }
    } finally {
      this.adding.delete(call)
    }
    return kept
  }

  /** @param now milliseconds since the Unix epoch. @returns whether it is kept, or was there already. */
  add(namespace: string, given: SeriesExemplar, now: number): boolean {
    const { labels, key } = this.setOf(given.series)
    const own = this.namespaces.get(namespace) ?? new Namespace(namespace)
    let series = own.series.get(key)
    const why = labels.length === 0 ? 'too_long' : this.refusal(series?.exemplars.last(), given, now)
    if (why === 'known') return true
    if (why !== undefined) {
      this.options.dropped(why)
      return false
    }
    this.namespaces.set(namespace, own)
    if (series === undefined) {
      series = { key, labels, histogram: given.histogram === true, exemplars: new Queue(), bytes: SERIES_BYTES + key.length * 4 }
      own.series.set(key, series)
      this.grow(own, series.bytes)
    }
    const exemplar = { labels: [...given.labels], value: given.value, time: given.time }
    series.exemplars.push(exemplar)
    own.order.push(series)
    this.count++
    this.grow(own, bytesOf(exemplar))
    while (this.count > this.options.maxExemplars || this.bytes > this.options.maxBytes) {
      this.options.dropped('evicted')
      // What there is too much of is what is shared: few exemplars may have long labels.
      const measure = this.count > this.options.maxExemplars ? 'count' : 'bytes'
      // A namespace that has its share gives way to itself, and others find room where most is.
      this.removeOldest(own[measure] * this.namespaces.size >= this[measure] ? own : this.fullest(measure))
    }
    return true
  }

  /** Exemplars of one series come together, with one list of its labels: to sort a long one for each would hold up the loop. */
  private setOf(series: readonly string[]): LabelSet {
    if (this.last?.given === series) return this.last
    const labels = lengthOf(series) > MAX_SERIES_CHARACTERS ? [] : sorted(series)
    return (this.last = { given: series, labels, key: JSON.stringify(labels) })
  }

  private refusal(newest: Exemplar | undefined, { labels, value, time }: SeriesExemplar, now: number): Refusal | 'known' | undefined {
    if (characters(labels) > MAX_LABEL_CHARACTERS) return 'too_long'
    if (!(time > now - this.options.maxAgeMs)) return 'too_old'
    // The order of its series would let nothing in until then, and nothing that came after it would expire.
    if (!(time <= now + this.options.maxFutureMs)) return 'too_new'
    if (newest === undefined || time > newest.time) return undefined
    if (time < newest.time) return 'out_of_order'
    if (Object.is(value, newest.value) && sameTexts(labels, newest.labels)) return 'known'
    return value < newest.value ? 'out_of_order' : undefined
  }

  /** Lets go of those that are too old. Work in the order in which they came: one that came late goes late. */
  *expire(now: number): Work<void> {
    for (const own of [...this.namespaces.values()]) {
      // Between two turns it may be deleted, and its name be that of another.
      while (this.namespaces.get(own.name) === own && own.order.first().exemplars.first().time <= now - this.options.maxAgeMs) {
        this.options.dropped('expired')
        this.removeOldest(own)
        yield
      }
    }
  }

  /** Calls of `addAll` that are not done add no more: whoever has the name next must not find it. */
  forget(namespace: string): void {
    for (const call of this.adding) if (call.namespace === namespace) call.deleted = true
    const own = this.namespaces.get(namespace)
    if (own === undefined) return
    this.count -= own.count
    this.bytes -= own.bytes
    this.namespaces.delete(namespace)
  }

  /** As `Exemplars.select`. */
  *select(namespace: string, selectors: readonly (readonly Matcher[])[], start: number, end: number, now: number): Work<ExemplarsOfSeries[]> {
    const own = this.namespaces.get(namespace)
    if (own === undefined || selectors.length === 0) return []
    const from = Math.max(start, now - this.options.maxAgeMs + 1)
    const all = [...own.series.values()]
    const found: ExemplarsOfSeries[] = []
    for (let at = 0; at < all.length; at += SLICE) {
      const inRange = all.slice(at, at + SLICE).filter(({ exemplars }) => exemplars.all().some(({ time }) => time >= from && time <= end))
      for (const { labels, exemplars } of yield* matching(selectors, inRange)) {
        found.push({ series: labels, exemplars: exemplars.all().filter(({ time }) => time >= from && time <= end) })
      }
      yield
    }
    return yield* ordered(found)
  }

  private grow(own: Namespace, bytes: number): void {
    own.bytes += bytes
    this.bytes += bytes
  }

  private fullest(measure: 'count' | 'bytes'): Namespace {
    let most: Namespace | undefined
    for (const own of this.namespaces.values()) if (most === undefined || own[measure] > most[measure]) most = own
    return most as Namespace
  }

  private removeOldest(own: Namespace): void {
    const series = own.order.shift()
    this.count--
    this.grow(own, -bytesOf(series.exemplars.shift()))
    if (series.exemplars.length > 0) return
    own.series.delete(series.key)
    this.grow(own, -series.bytes)
    if (own.count === 0) this.namespaces.delete(own.name)
  }
}

/** By their labels: slices are put in order, then merged two at a time. */
function* ordered(found: readonly ExemplarsOfSeries[]): Work<ExemplarsOfSeries[]> {
  let runs: ExemplarsOfSeries[][] = []
  for (let at = 0; at < found.length; at += SLICE) {
    runs.push(found.slice(at, at + SLICE).sort((a, b) => compareTexts(a.series, b.series)))
    yield
  }
  while (runs.length > 1) {
    const longer: ExemplarsOfSeries[][] = []
    for (let i = 0; i < runs.length; i += 2) longer.push(i + 1 < runs.length ? yield* merged(runs[i], runs[i + 1]) : runs[i])
    runs = longer
  }
  return runs[0] ?? []
}

function* merged(a: readonly ExemplarsOfSeries[], b: readonly ExemplarsOfSeries[]): Work<ExemplarsOfSeries[]> {
  const all: ExemplarsOfSeries[] = []
  for (let i = 0, k = 0; i < a.length || k < b.length; ) {
    all.push(k === b.length || (i < a.length && compareTexts(a[i].series, b[k].series) <= 0) ? a[i++] : b[k++])
    if (all.length % SLICE === 0) yield
  }
  return all
}

/** A name that a series answers to. */
interface Candidate {
  series: Series
  name: string
  /** One of the names of a classic histogram. */
  classic: boolean
}

/** Those that all matchers of a selector let pass. */
function* matching(selectors: readonly (readonly Matcher[])[], series: readonly Series[]): Work<Set<Series>> {
  const found = new Set<Series>()
  const candidates = series.flatMap(namesOf)
  for (const matchers of selectors) {
    let left: readonly Candidate[] = candidates.filter((candidate) => !found.has(candidate.series))
    for (const matcher of matchers) {
      yield
      if (left.length === 0) break
      const passes = flagsOf(matcher, left)
      // A bucket has no series of its own here: an exemplar is that of all of them.
      left = left.filter(({ classic }, i) => passes[i] === 1 || (classic && matcher.tag === 'le'))
    }
    for (const candidate of left) found.add(candidate.series)
  }
  return found
}

function namesOf(series: Series): Candidate[] {
  const name = textOf(series.labels, NAME)
  const own = { series, name, classic: false }
  return series.histogram ? [own, ...CLASSIC.map((ending) => ({ series, name: name + ending, classic: true }))] : [own]
}

/** @throws BAD_REQUEST for an expression that holds up the loop. */
function flagsOf({ tag, op, value }: Matcher, candidates: readonly Candidate[]): Uint8Array {
  const texts = candidates.map(({ series, name }) => (tag === NAME ? name : textOf(series.labels, tag)))
  if (op === '=' || op === '!=') return Uint8Array.from(texts, (text) => Number((text === value) === (op === '=')))
  const flags = new TextPattern(value, PATTERN_MS).flags(texts)
  return op === '=~' ? flags : flags.map((flag) => 1 - flag)
}

/** A label that a series does not have is empty. */
function textOf(labels: readonly string[], name: string): string {
  for (let i = 0; i + 1 < labels.length; i += 2) if (labels[i] === name) return labels[i + 1]
  return ''
}

/** Name, value, name, value ..., in the order of the names. */
function sorted(labels: readonly string[]): readonly string[] {
  // As senders have them mostly.
  if (isSorted(labels)) return labels
  const names = [...mapOf(labels)].sort(([a], [b]) => (a < b ? -1 : 1))
  return names.flat()
}

/** Names ascend, and no label is empty. */
function isSorted(labels: readonly string[]): boolean {
  for (let i = 0; i < labels.length; i += 2) if (labels[i + 1] === '' || (i > 0 && !(labels[i - 2] < labels[i]))) return false
  return labels.length % 2 === 0
}

/** Without those that are empty, which are none. */
function mapOf(labels: readonly string[]): Map<string, string> {
  const map = new Map<string, string>()
  for (let i = 0; i + 1 < labels.length; i += 2) if (labels[i + 1] !== '') map.set(labels[i], labels[i + 1])
  return map
}

const lengthOf = (texts: readonly string[]): number => texts.reduce((sum, text) => sum + text.length, 0)
const bytesOf = ({ labels }: Exemplar): number => EXEMPLAR_BYTES + lengthOf(labels) * 2 + labels.length * 24
const sameTexts = (a: readonly string[], b: readonly string[]): boolean => a.length === b.length && a.every((text, i) => text === b[i])

function characters(labels: readonly string[]): number {
  const length = lengthOf(labels)
  // A character takes two units at most.
  return length > 2 * MAX_LABEL_CHARACTERS ? length : labels.reduce((sum, text) => sum + [...text].length, 0)
}

function compareTexts(a: readonly string[], b: readonly string[]): number {
  for (let i = 0; i < a.length && i < b.length; i++) if (a[i] !== b[i]) return a[i] < b[i] ? -1 : 1
  return a.length - b.length
}
