/**
 * Keys in the state store. A namespace has no "/"; without multi_tenancy it is empty.
 *
 * Nodes may share the store, each with points of its own: what is of a log of changes is kept by its history (`historyOf`), everything else is of all of them.
 */
export const TRIGGERS = 'trigger/'

/** Digits of a signal's place: keys order as the places do. */
const DIGITS = 16

interface Keys {
  trigger(name: string): string
  triggers: string
  ring: string
  place(history: string): string
  places: string
  /** @param trigger its id. */
  after(trigger: string, history: string): string
  afters: string
  aftersOf(trigger: string): string
  signal(sequence: number): string
  signals: string
  /** @param entry of a trigger and a series. */
  cooldown(entry: string): string
  cooldowns: string
  floor(trigger: string): string
  floors: string
  /** Of all that a namespace has. */
  all: readonly string[]
}

export function keysOf(namespace: string): Keys {
  const of = (kind: string) => `${kind}/${namespace}/`
  const [triggers, ring, places, afters] = [of('trigger'), of('place'), of('reader'), of('after')]
  const [signals, cooldowns, floors] = [of('signal'), of('cooldown'), of('floor')]
  return {
    trigger: (name) => triggers + name,
    triggers,
    ring,
    place: (history) => places + history,
    places,
    after: (trigger, history) => `${afters}${trigger}/${history}`,
    afters,
    aftersOf: (trigger) => `${afters}${trigger}/`,
    signal: (sequence) => signals + String(sequence).padStart(DIGITS, '0'),
    signals,
    cooldown: (entry) => cooldowns + entry,
    cooldowns,
    floor: (trigger) => floors + trigger,
    floors,
    all: [triggers, ring, places, afters, signals, cooldowns, floors],
  }
}

/** Namespace and rest of a key. */
export function partsOf(key: string): { namespace: string; rest: string } {
  const from = key.indexOf('/') + 1
  const to = key.indexOf('/', from)
  return { namespace: key.slice(from, to), rest: key.slice(to + 1) }
}

/** Which signals of a namespace are kept, whoever found them. */
export interface Ring {
  /** Rises with each commit of what nodes share: whoever finds another number than he left has a rival. */
  version: number
  /** Of the oldest signal that is kept, and of the next one. */
  first: number
  next: number
}

/** How far the changes of one history are judged. */
export interface Place {
  /** Likewise. */
  version: number
  /** Behind the last change that is judged whole. */
  position: string
  /** Of the change that ends there, the first rows are judged. */
  partial?: { position: string; rows: number }
  /** Signals that were found there: those before `until` are committed, those before `handed` were handed to their channels. */
  handed: number
  until: number
  /** Milliseconds since the Unix epoch: what was written before is judged. Absent = as far as is known, nothing. */
  caught_up?: number
}

/** As it was kept before nodes had places of their own. */
export type FormerPlace = Ring & Omit<Place, 'until'>

/** From where on a trigger judges in one history, and since when it is so enabled. */
export interface After {
  position: string
  /** Milliseconds since the Unix epoch. */
  enabled_at: number
}
