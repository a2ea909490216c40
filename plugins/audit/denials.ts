/**
 * Refusals are cheap to provoke, and must not fill the disk: of those of one kind from one address, and of all, so many are written in a window;
 * further ones are counted, and one entry for each kind and address says how many at the end of the window.
 */
import type { DraftInput } from './draft.ts'

/** Kinds and addresses that are counted apart in a window; those of all further ones are counted together. */
const MAX_KINDS = 1000

interface DenialLimits {
  perAddress: number
  perWindow: number
  windowSecs: number
}

interface Kind {
  /** The newest one that was counted. */
  record: DraftInput
  written: number
  counted: number
  first: bigint
  last: bigint
}

export class Denials {
  private readonly limits: DenialLimits
  private readonly now: () => bigint
  private kinds = new Map<string, Kind>()
  private written = 0

  constructor(limits: DenialLimits, now: () => bigint) {
    this.limits = limits
    this.now = now
  }

  /** Whether anything happened in this window. */
  get idle(): boolean {
    return this.kinds.size === 0
  }

  /** @returns whether it is to be written; else it was counted. */
  admit(record: DraftInput): boolean {
    const kind = this.kindOf(record)
    if (kind.written < this.limits.perAddress && this.written < this.limits.perWindow) {
      kind.written++
      this.written++
      return true
    }
    this.count(record)
    return false
  }

  /** One that is not in the audit log by itself. */
  count(record: DraftInput): void {
    const kind = this.kindOf(record)
    const now = this.now()
    if (kind.counted++ === 0) kind.first = now
    kind.last = now
    kind.record = record
  }

  /** Ends the window. @returns the entries that say how many were counted, each with what to call if it cannot be kept. */
  end(): { record: DraftInput; restore(): void }[] {
    const { kinds } = this
    this.kinds = new Map()
    this.written = 0
    return [...kinds].flatMap(([key, kind]) =>
      kind.counted === 0 ? [] : [{ record: this.summaryOf(kind, key === OTHERS), restore: () => this.restore(key, kind) }],
    )
  }

  private summaryOf({ record, counted, first, last }: Kind, mixed: boolean): DraftInput {
    const { metadata = {} } = record
    const count = { event: 'counted', count: String(counted), first: String(first), last: String(last), window_secs: String(this.limits.windowSecs) }
    // What the newest of them says of itself, without the request that it came by.
    const { reason, code, stage, surface, credential, method } = metadata
    const told = Object.fromEntries(Object.entries({ reason, code, stage, surface, credential, method }).filter(([, value]) => value !== undefined))
    const { requestId: _, ...rest } = record
    if (!mixed) return { ...rest, metadata: { ...told, ...count, network: networkOf(record.address) } }
    return { action: 'custom', resource: '*', decision: 'deny', principal: '*', metadata: count }
  }

  private restore(key: string, lost: Kind): void {
    if (!this.kinds.has(key) && this.kinds.size < MAX_KINDS) {
      this.kinds.set(key, { ...lost, written: 0 })
      return
    }
    const kind = this.kinds.get(key) ?? this.newKind(OTHERS, lost.record)
    const { record, first, last } = lost
    if (kind.counted === 0) Object.assign(kind, { record, first, last })
    kind.counted += lost.counted
    if (first < kind.first) kind.first = first
    if (last > kind.last) kind.last = last
  }

  private kindOf(record: DraftInput): Kind {
    const key = [networkOf(record.address), record.action, record.principal].join(' ')
    return this.kinds.get(key) ?? this.newKind(this.kinds.size < MAX_KINDS ? key : OTHERS, record)
  }

  private newKind(key: string, record: DraftInput): Kind {
    let kind = this.kinds.get(key)
    if (kind === undefined) this.kinds.set(key, (kind = { record, written: 0, counted: 0, first: 0n, last: 0n }))
    return kind
  }
}

const OTHERS = '*'

/** An IPv6 address counts by its /64, of which a caller has all addresses. */
export function networkOf(address = ''): string {
  const [plain] = address.slice(0, 64).split('%', 1)
  if (!plain.includes(':') || plain.includes('.')) return plain
  const [before, after] = plain.split('::').map((part) => (part === '' ? [] : part.split(':')))
  const groups = after === undefined ? before : [...before, ...Array(Math.max(0, 8 - before.length - after.length)).fill('0'), ...after]
  return `${groups.slice(0, 4).join(':')}::/64`
}
