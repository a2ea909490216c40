/**
 * Events and those who wait for them. A wait is found by its first key, an event that came first by each of its keys, so neither looks at all of the other
 * kind. An event is known by its source and id until it is forgotten; what nobody waits for is kept, and after a while it is a dead letter, without its payload.
 */
import type { StateEntry, StateReader, StateStore, StateTransaction } from 'svcdb'
import type { AgentEvent, CorrelationKey } from 'svcdb/agents'
import { SvcError } from 'svcdb/lib/errors'
import { nextTurn } from 'svcdb/lib/event-loop'
import { canonical } from '../record/canonical.ts'
import { digest, instant } from '../record/names.ts'
import { FINAL, type Status, setStatus, statusOf } from './runs.ts'
import { deleteWait, number, putWait, type Wait, waitsOf } from './waits.ts'

interface DeadLetter {
  source: string
  id: string
  kind: string
  correlation: CorrelationKey[]
  received_at: string
  reason: string
}

/** What the plane tells its runs: nobody has sent it who could look after it. */
const OF_PLANE = /^svc\./

interface Buffered {
  event: AgentEvent
  /** Milliseconds since the Unix epoch. */
  received: number
  /** As they are counted; absent in what an earlier version kept, which is not. */
  bytes?: number
}

/** Of events that are kept because nobody waits for them: how many, and the bytes of their JSON. */
export interface EventRoom {
  events: number
  bytes: number
}

const UNBOUNDED: EventRoom = { events: Number.POSITIVE_INFINITY, bytes: Number.POSITIVE_INFINITY }
/** How much is kept. */
const KEPT = 'buffered'

/** By when they came. */
const SEEN_AT = 'seen_at/'
/** Rows that are looked at before others get their turn. */
const PAGE = 100
const inboxKey = ({ run, key }: Pick<Wait, 'run' | 'key'>): string => `inbox/${run}/${key}`
const addressedKey = (run: string, event: AgentEvent): string => `addressed/${run}/${identity(event)}`
const identity = ({ source, id }: Pick<AgentEvent, 'source' | 'id'>): string => digest('svc.event.v1', `${source}\u001f${id}`)

/** In one order, each once. */
export function ordered(correlation: readonly CorrelationKey[]): CorrelationKey[] {
  const byText = new Map(correlation.map(({ namespace, value }) => [canonical([namespace, value]), { namespace, value }]))
  return [...byText.keys()].sort().map((text) => byText.get(text) as CorrelationKey)
}

const bucket = (kind: string, key: CorrelationKey | undefined): string => digest('svc.wait.v1', [kind, key ?? null])
/** An event that has all keys has the first one. */
const bucketsOfWait = ({ event, any }: Wait): string[] => {
  if (event === undefined) return []
  return any && event.correlation.length > 0 ? event.correlation.map((key) => bucket(event.kind, key)) : [bucket(event.kind, event.correlation[0])]
}
const waiterKeys = (wait: Wait): string[] => bucketsOfWait(wait).map((of) => `waiter/${of}/${wait.run}/${wait.key}`)
const bucketsOfEvent = ({ kind, correlation }: AgentEvent): string[] => [undefined, ...correlation].map((key) => bucket(kind, key))

function suits({ run, event: wanted, any = false }: Wait, event: AgentEvent): boolean {
  if (event.to !== undefined && event.to !== run) return false
  const keys = wanted?.correlation ?? []
  const has = ({ namespace, value }: CorrelationKey) => event.correlation.some((key) => key.namespace === namespace && key.value === value)
  return keys.length === 0 || (any ? keys.some(has) : keys.every(has))
}

/** Those of a prefix, however many there are. */
async function* rowsOf<T>(state: StateReader, prefix: string): AsyncGenerator<StateEntry<T>> {
  for (let start = prefix; ; await nextTurn()) {
    const page = await state.list<T>({ prefix, start, limit: PAGE })
    yield* page
    if (page.length < PAGE) return
    start = `${page[page.length - 1].key}\0`
  }
}

/** Where events lie that are in all of these, the oldest first: what is in one alone is leapt over, so that the rarest key decides how long it takes. */
async function* inAll(state: StateReader, prefixes: readonly string[]): AsyncGenerator<{ place: string; key: string }> {
  let at = ''
  let agreed = 0
  for (let steps = 1; ; steps++) {
    const prefix = prefixes[steps % prefixes.length]
    const [next] = await state.list<string>({ prefix, start: prefix + at, limit: 1 })
    if (next === undefined) return
    const place = next.key.slice(prefix.length)
    agreed = place === at ? agreed + 1 : 1
    at = place
    if (agreed === prefixes.length) {
      yield { place, key: next.value }
      at = `${place}\0`
    }
    if (steps % PAGE === 0) await nextTurn()
  }
}

/** For each, where events lie that may suit a wait. */
function placesFor({ event, any }: Wait): string[][] {
  if (event === undefined) return []
  const prefixes = (event.correlation.length === 0 ? [undefined] : event.correlation).map((key) => `found/${bucket(event.kind, key)}/`)
  return any ? prefixes.map((prefix) => [prefix]) : [prefixes]
}

/** @returns the event, when it came first: then nothing waits. */
export async function beginWait(tx: StateTransaction, wait: Wait): Promise<AgentEvent | undefined> {
  for (const prefixes of placesFor(wait)) {
    for await (const { place, key: value } of inAll(tx, prefixes)) {
      const buffered = await tx.get<Buffered>(value)
      if (buffered === undefined) for (const prefix of prefixes) tx.delete(prefix + place)
      else if (suits(wait, buffered.event)) {
        await unbuffer(tx, value, buffered)
        tx.put(`seen/${identity(buffered.event)}`, { run: wait.run })
        return buffered.event
      }
    }
  }
  for (const key of waiterKeys(wait)) tx.put(key, wait)
  putWait(tx, wait)
  return undefined
}

export async function endWait(tx: StateTransaction, wait: Wait): Promise<void> {
  for (const key of waiterKeys(wait)) tx.delete(key)
  deleteWait(tx, wait)
  tx.delete(inboxKey(wait))
}

/** The event that was handed to a wait. */
export function arrivedFor(state: StateReader, run: string, key: string): Promise<AgentEvent | undefined> {
  return state.get<AgentEvent>(inboxKey({ run, key }))
}

/** Whether something has happened that a suspended run has to be told. */
export async function hasNews(state: StateReader, run: string, now: number): Promise<boolean> {
  if ((await state.list({ prefix: `inbox/${run}/`, limit: 1 })).length > 0) return true
  return (await waitsOf(state, run)).some(({ until }) => until <= now)
}

export interface Delivery {
  delivery: 'resumed' | 'buffered' | 'duplicate'
  /** That has it: the one that waited, or the one that it begins. */
  run?: string
}

interface DeliveryRules {
  /** Called where nobody waits. @returns the run that begins with the event; undefined = none, and the event is kept. */
  begin?(): Promise<string | undefined>
  /** Of all that are kept; absent = no bound. */
  room?: EventRoom
}

/** @param now milliseconds since the Unix epoch. @throws SvcError RATE_LIMITED where there is no room for an event that nobody waits for; NOT_FOUND, CONFLICT. */
export async function deliver(tx: StateTransaction, event: AgentEvent, now: number, { begin, room = UNBOUNDED }: DeliveryRules = {}): Promise<Delivery> {
  const seen = await tx.get<{ run?: string }>(`seen/${identity(event)}`)
  if (seen !== undefined) return { delivery: 'duplicate', ...seen }
  if (event.to !== undefined) await checkAddress(tx, event.to)
  tx.put(`${SEEN_AT}${number(now)}/${identity(event)}`, null)
  const { going, resting, failed } = await waitsFor(tx, event, now)
  if (going !== undefined) {
    await handOver(tx, going, event)
    return { delivery: 'resumed', run: going.run }
  }
  if (resting !== undefined) {
    await handOver(tx, resting, event)
    return { delivery: 'buffered', run: resting.run }
  }
  const run = await begin?.()
  if (run !== undefined) {
    tx.put(`seen/${identity(event)}`, { run })
    return { delivery: 'buffered', run }
  }
  if (failed !== undefined) {
    await handOver(tx, failed, event)
    return { delivery: 'buffered', run: failed.run }
  }
  const bytes = await takeRoom(tx, event, room)
  const key = `buffer/${number(now)}/${identity(event)}`
  tx.put(key, { event, received: now, bytes } satisfies Buffered)
  if (event.to !== undefined) tx.put(addressedKey(event.to, event), key)
  for (const of of bucketsOfEvent(event)) tx.put(`found/${of}/${number(now)}/${identity(event)}`, key)
  tx.put(`seen/${identity(event)}`, {})
  return { delivery: 'buffered' }
}

/** They go on when a person has looked, if at all. */
const RESTING: ReadonlySet<Status | undefined> = new Set<Status>(['quarantined', 'withheld', 'exhausted', 'failed'])

interface WaitsFor {
  going?: Wait
  /** Of a run that a person has to look at. */
  resting?: Wait
  /** Of one that may well never go on: rather than into it, an event goes into a run that begins with it. */
  failed?: Wait
}

/** The first wait of each kind for which an event is; looks no further than one of a run that goes on. Waits of the others that are over by their time are ended. */
async function waitsFor(tx: StateTransaction, event: AgentEvent, now: number): Promise<WaitsFor> {
  const found: WaitsFor = {}
  for (const of of bucketsOfEvent(event)) {
    for await (const { value: wait } of rowsOf<Wait>(tx, `waiter/${of}/${event.to === undefined ? '' : `${event.to}/`}`)) {
      const status = await statusOf(tx, wait.run)
      if (wait.until <= now) {
        if (RESTING.has(status)) await endWait(tx, wait)
        continue
      }
      if (!suits(wait, event)) continue
      if (!RESTING.has(status)) return { going: wait }
      if (status === 'failed') found.failed ??= wait
      else found.resting ??= wait
    }
  }
  return found
}

async function handOver(tx: StateTransaction, wait: Wait, event: AgentEvent): Promise<void> {
  for (const key of waiterKeys(wait)) tx.delete(key)
  tx.put(inboxKey(wait), event)
  tx.put(`seen/${identity(event)}`, { run: wait.run })
  if ((await statusOf(tx, wait.run)) === 'suspended') await setStatus(tx, wait.run, 'running')
}

/** @throws SvcError NOT_FOUND, CONFLICT. */
async function checkAddress(tx: StateTransaction, run: string): Promise<void> {
  const status = await statusOf(tx, run)
  const refuse = (code: 'NOT_FOUND' | 'CONFLICT', why: string) => new SvcError(code, `cannot deliver an event to ${JSON.stringify(run.slice(0, 64))}: ${why}`)
  if (status === undefined) throw refuse('NOT_FOUND', 'there is no such run; check the id, and whose tenant it is')
  if (FINAL.has(status)) throw refuse('CONFLICT', `it is ${status}, and waits for nothing any more`)
}

/** Hands an event of the plane to all that wait for it; it is not kept for others. @returns the runs that go on. */
export async function announce(tx: StateTransaction, event: AgentEvent): Promise<string[]> {
  const runs = new Set<string>()
  for (const of of bucketsOfEvent(event)) {
    for await (const { value: wait } of rowsOf<Wait>(tx, `waiter/${of}/`)) {
      if (!suits(wait, event)) continue
      for (const key of waiterKeys(wait)) tx.delete(key)
      tx.put(inboxKey(wait), event)
      if ((await statusOf(tx, wait.run)) === 'suspended') await setStatus(tx, wait.run, 'running')
      runs.add(wait.run)
    }
  }
  return [...runs]
}

/** @returns the bytes of the event. @throws SvcError RATE_LIMITED. */
async function takeRoom(tx: StateTransaction, event: AgentEvent, room: EventRoom): Promise<number> {
  const bytes = Buffer.byteLength(JSON.stringify(event))
  const kept = await keptIn(tx)
  if (kept.events >= room.events || kept.bytes + bytes > room.bytes)
    throw new SvcError(
      'RATE_LIMITED',
      `cannot keep an event that no run waits for: ${kept.events} with ${kept.bytes} bytes are kept already; send it again when runs have taken some, or they are dead letters, or raise agent_plane.max_buffered_events and max_buffered_mb`,
    )
  tx.put(KEPT, { events: kept.events + 1, bytes: kept.bytes + bytes } satisfies EventRoom)
  return bytes
}

const keptIn = async (state: StateReader): Promise<EventRoom> => (await state.get<EventRoom>(KEPT)) ?? { events: 0, bytes: 0 }

async function unbuffer(tx: StateTransaction, key: string, { event, received, bytes }: Buffered): Promise<void> {
  if (bytes !== undefined) {
    const kept = await keptIn(tx)
    tx.put(KEPT, { events: kept.events - 1, bytes: kept.bytes - bytes } satisfies EventRoom)
  }
  tx.delete(key)
  if (event.to !== undefined) tx.delete(addressedKey(event.to, event))
  for (const of of bucketsOfEvent(event)) tx.delete(`found/${of}/${number(received)}/${identity(event)}`)
}

/** Makes dead letters of what nobody has waited for. @param before milliseconds since the Unix epoch. @returns how many. */
export async function retire(tx: StateTransaction, before: number, limit: number): Promise<number> {
  const old = await tx.list<Buffered>({ prefix: 'buffer/', end: `buffer/${number(before)}`, limit })
  for (const { key, value } of old) {
    const { source, id, kind, correlation } = value.event
    const reason = 'no run has waited for it in time'
    await unbuffer(tx, key, value)
    if (!OF_PLANE.test(kind))
      tx.put(`dead/${key.slice('buffer/'.length)}`, { source, id, kind, correlation, received_at: instant(value.received), reason } satisfies DeadLetter)
  }
  return old.length
}

/** Of one transaction, which has all that it reads in memory: each has half a MiB at most. */
const MAX_RETIRED = 16

/** As `retire`, some at a time. */
export function retireAll(state: StateStore, before: number, limit: number): Promise<number> {
  return inParts(state, { part: MAX_RETIRED, limit }, (tx, some) => retire(tx, before, some))
}

/** Does in several transactions what there may be much of. @param act does as many as it is asked for. @returns how many were done. */
export async function inParts(
  state: StateStore,
  { part, limit }: { part: number; limit: number },
  act: (tx: StateTransaction, some: number) => Promise<number>,
): Promise<number> {
  for (let done = 0; ; ) {
    const some = await state.transaction((tx) => act(tx, Math.min(part, limit - done)))
    done += some
    if (some < part || done >= limit) return done
  }
}

/** Events that came before are not known any more. @param before milliseconds since the Unix epoch: none that is kept still may be older. @returns how many. */
export async function forget(tx: StateTransaction, before: number, limit: number): Promise<number> {
  const old = await tx.list({ prefix: SEEN_AT, end: `${SEEN_AT}${number(before)}`, limit })
  for (const { key } of old) {
    tx.delete(key)
    tx.delete(`seen/${key.slice(key.lastIndexOf('/') + 1)}`)
  }
  return old.length
}

/**
 * Ends waits that nobody goes on with; what has arrived for them is a dead letter. @param now milliseconds since the Unix epoch. @param of which, by their
 * effect; absent = all, and the run is over for good.
 */
export async function endWaits(tx: StateTransaction, run: string, now: number, of?: (key: string) => boolean): Promise<void> {
  for (const wait of await waitsOf(tx, run)) {
    if (of?.(wait.key) === false) continue
    const arrived = await arrivedFor(tx, run, wait.key)
    if (arrived !== undefined) abandonEvent(tx, arrived, now)
    await endWait(tx, wait)
  }
  if (of !== undefined) return
  for (const { value } of await tx.list<string>({ prefix: `addressed/${run}/` })) {
    const buffered = (await tx.get<Buffered>(value)) as Buffered
    await unbuffer(tx, value, buffered)
    abandonEvent(tx, buffered.event, now)
  }
}

function abandonEvent(tx: StateTransaction, event: AgentEvent, now: number): void {
  const { source, id, kind, correlation } = event
  if (OF_PLANE.test(kind)) return
  const reason = 'the run that it was for, or its step, has ended without reading it'
  tx.put(`dead/${number(now)}/${identity(event)}`, { source, id, kind, correlation, received_at: instant(now), reason } satisfies DeadLetter)
}

/** Dead letters of what came before are gone. @param before milliseconds since the Unix epoch. @returns how many. */
export async function dropDeadLetters(tx: StateTransaction, before: number, limit: number): Promise<number> {
  const old = await tx.list({ prefix: 'dead/', end: `dead/${number(before)}`, limit })
  for (const { key } of old) tx.delete(key)
  return old.length
}

/** Oldest first. */
export async function deadLetters(state: StateReader, limit: number): Promise<DeadLetter[]> {
  return (await state.list<DeadLetter>({ prefix: 'dead/', limit })).map(({ value }) => value)
}
