/** Keys in the state store. A namespace has no "/"; without multi_tenancy it is empty. */
export const TRIGGERS = 'trigger/'

/** Digits of a signal's place: keys order as the places do. */
const DIGITS = 16

export interface Keys {
  trigger(name: string): string
  triggers: string
  place: string
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
  const [triggers, place, signals, cooldowns, floors] = [of('trigger'), of('place'), of('signal'), of('cooldown'), of('floor')]
  return {
    trigger: (name) => triggers + name,
    triggers,
    place,
    signal: (sequence) => signals + String(sequence).padStart(DIGITS, '0'),
    signals,
    cooldown: (entry) => cooldowns + entry,
    cooldowns,
    floor: (trigger) => floors + trigger,
    floors,
    all: [triggers, place, signals, cooldowns, floors],
  }
}

/** Namespace and rest of a key. */
export function partsOf(key: string): { namespace: string; rest: string } {
  const from = key.indexOf('/') + 1
  const to = key.indexOf('/', from)
  return { namespace: key.slice(from, to), rest: key.slice(to + 1) }
}

/** How far a namespace is. */
export interface Place {
  /** Rises with each commit: whoever finds another number than he left has a rival. */
  version: number
  /** Behind the last change that is judged whole. */
  position: string
  /** Of the change that ends there, the first rows are judged. */
  partial?: { position: string; rows: number }
  /** Of the oldest signal that is kept, and of the next one. */
  first: number
  next: number
  /** Signals before it were handed to their channels. */
  handed: number
  /** Milliseconds since the Unix epoch: what was written before is judged. Absent = as far as is known, nothing. */
  caught_up?: number
}
