/** Definitions of triggers, as they are kept and as they are used. */
import type { ChangePosition } from 'svcdb'
import type { Entry, TriggerCooldowns } from './cooldown/cooldowns.ts'
import { type Condition, conditionText } from './statement/condition.ts'
import { type Channel, type Composite, type CreateTrigger, channelText, compositeText, createText, parseStatement } from './statement/parse.ts'

/** As it is in the state store. */
export interface KeptTrigger {
  /** UUID. */
  id: string
  /** What made it, as it reads today: conditions and channels are read from it. */
  statement: string
  /** Nanoseconds, as decimal text. */
  cooldown: string
  enabled: boolean
  /** What is judged takes effect behind this place. */
  after: ChangePosition
  /** Milliseconds since the Unix epoch. */
  created_at: number
  /** When it was enabled last, likewise, if not from the beginning. */
  enabled_at?: number
}

export interface Trigger extends TriggerCooldowns {
  readonly name: string
  readonly measurement: string
  readonly condition: Condition | Composite
  readonly conditionText: string
  readonly delivery: readonly Channel[]
  readonly created: CreateTrigger
  readonly createdAt: number
  /** Nanoseconds. Points of before were not all written behind `after`. */
  readonly since: bigint
  enabled: boolean
  after: ChangePosition
  enabledAt: number
  /** False once it is dropped. */
  alive: boolean
}

/** What was taken once is taken again, whatever the limits are now. */
const NO_LIMITS = { maxBytes: 2 ** 30, maxComparisons: 2 ** 30, maxDepth: 1000, maxChannels: 2 ** 30 }

export function triggerOf(kept: KeptTrigger): Trigger {
  const created = parseStatement(kept.statement, NO_LIMITS)
  if (created.kind !== 'create') throw new Error(`cannot read trigger ${kept.id}: its statement makes none`)
  return made(created, kept)
}

export function made(created: CreateTrigger, { id, cooldown, enabled, after, created_at, enabled_at = created_at }: Omit<KeptTrigger, 'statement'>): Trigger {
  const { name, measurement, condition, delivery } = created
  return {
    id,
    name,
    measurement,
    condition,
    conditionText: condition.kind === 'signals' ? compositeText(condition) : conditionText(condition),
    delivery,
    created,
    createdAt: created_at,
    enabledAt: enabled_at,
    get since() {
      return BigInt(Math.ceil(this.enabledAt)) * 1_000_000n
    },
    cooldown: BigInt(cooldown),
    enabled,
    after,
    alive: true,
    floor: undefined,
    bySeries: new Map<number, Entry>(),
  }
}

export function keptOf({ id, created, cooldown, enabled, after, createdAt, enabledAt }: Trigger): KeptTrigger {
  const kept = { id, statement: createText(created), cooldown: String(cooldown), enabled, after, created_at: createdAt }
  return enabledAt === createdAt ? kept : { ...kept, enabled_at: enabledAt }
}

/** An item of the listing. */
export interface ShownTrigger {
  name: string
  measurement: string
  enabled: boolean
  delivery: string[]
  condition: string
  cooldown_secs: number
}

export function shown({ name, measurement, enabled, delivery, conditionText, cooldown }: Trigger): ShownTrigger {
  return { name, measurement, enabled, delivery: delivery.map(channelText), condition: conditionText, cooldown_secs: Number(cooldown) / 1e9 }
}
