/**
 * What queries of one thread hold in memory until they have put it in order and their callers have taken it, by namespace.
 *
 * Invariants
 * - Once half of the limit is held, one query of each namespace goes on gathering, the first that began: others wait for it, and hold no more meanwhile.
 * - Above the limit nobody gathers, and of the namespace that has most one is ended: whose caller has taken nothing for longest, beyond PATIENCE_MS, or, where none has
 *   gathered all, the last that began, which begins again when there is room. So no namespace takes the room of another, and who reads is not ended for who does not.
 * - Who says beforehand what it is going to hold waits for its turn without holding it.
 * - A query that is the only one stays whatever it holds, which has limits of its own.
 */
import { SvcError } from '../errors/index.ts'

const PATIENCE_MS = 1000
const LOOK_MS = 100
/** Where neither the configuration nor the engine says anything. */
const USUAL_LIMIT = 268_435_456

/** Whose rows are held, and how many bytes of them there may be. */
export interface HoldOptions {
  /** Empty where namespaces are not kept apart. */
  namespace: string
  /** Bytes of all queries of the thread: `server.max_held_memory`; 0 = `engineLimit`. */
  limit: number
  /** `memoryLimit` of the reader. */
  engineLimit?: number | undefined
  /** Bytes from which on it counts: one that never holds as many waits for nobody, and nobody for it. Default 0. */
  least?: number
  signal: AbortSignal
}

/** The rows that queries hold; `heldRows` is that of this thread. A query begins a hold before it gathers rows. */
export class HeldRows {
  /** In the order in which they began. */
  private readonly holds = new Set<RowHold>()
  /** Those that have gathered all, in the order in which they had. */
  private readonly gathered = new Set<RowHold>()
  private waiting: (() => void)[] = []
  private total = 0

  begin(options: HoldOptions): RowHold {
    const limit = options.limit || (options.engineLimit ?? USUAL_LIMIT)
    const hold: RowHold = new RowHold(options, limit, {
      changed: (by) => {
        this.total += by
      },
      mustWait: () => {
        if (this.total > limit) this.relieve(limit)
        if (hold.over) return false
        return this.isFull(limit) || (this.total * 2 > limit && this.firstOf(options.namespace) !== hold)
      },
      isRoomFor: (bytes) => this.isRoomFor(bytes, limit),
      mustWaitFor: (bytes) => {
        const first = this.firstOf(options.namespace)
        return first !== undefined && first !== hold && (this.total - hold.bytes + bytes) * 2 > limit
      },
      wait: () =>
        new Promise((resolve) => {
          const timer = setTimeout(resolve, LOOK_MS)
          this.waiting.push(() => {
            clearTimeout(timer)
            resolve()
          })
        }),
      wake: () => this.wake(),
      gathered: () => {
        if (this.gathered.has(hold)) return
        this.gathered.add(hold)
        this.wake()
      },
      gathers: () => this.gathered.delete(hold),
      ended: () => {
        this.holds.delete(hold)
        this.gathered.delete(hold)
        this.wake()
      },
    })
    this.holds.add(hold)
    return hold
  }

  /**
   * Does work that may hold rows, and gives back what it held however it ends. Work that has to make room while it gathers is done again, from its beginning, when there is room for
   * what it held: nothing of it has been seen by then.
   */
  async during<T>(options: HoldOptions, work: (hold: RowHold) => Promise<T>): Promise<T> {
    let held = 0
    for (;;) {
      const hold = this.begin(options)
      try {
        await hold.again(held)
        return await work(hold)
      } catch (error) {
        if (hold.madeRoom === undefined || error !== hold.refusal) throw error
        held = hold.madeRoom
      } finally {
        hold.end()
      }
    }
  }

  private firstOf(namespace: string): RowHold | undefined {
    for (const hold of this.holds) if (hold.namespace === namespace && hold.counts && !this.gathered.has(hold)) return hold
    return undefined
  }

  private isFull(limit: number): boolean {
    return this.total > limit && [...this.holds].filter(({ bytes }) => bytes > 0).length > 1
  }

  private relieve(limit: number): void {
    while (this.isFull(limit)) {
      const own = this.greediest()
      const idle = this.idleOf(own)
      if (idle !== undefined) idle.refuse()
      else if (own.some((hold) => this.gathered.has(hold))) return
      else own[own.length - 1].refuse()
    }
  }

  /** Those whose callers take nothing give way to one that is to begin once more; others do not. */
  private isRoomFor(bytes: number, limit: number): boolean {
    while (this.total > 0 && this.total + bytes > limit) {
      const idle = this.idleOf(this.greediest())
      if (idle === undefined) return false
      idle.refuse()
    }
    return true
  }

  /** What holds something of the namespace that has most. */
  private greediest(): RowHold[] {
    const sums = new Map<string, number>()
    for (const { namespace, bytes } of this.holds) sums.set(namespace, (sums.get(namespace) ?? 0) + bytes)
    const [most] = [...sums].reduce((a, b) => (b[1] > a[1] ? b : a))
    return [...this.holds].filter(({ namespace, bytes }) => namespace === most && bytes > 0)
  }

  /** The one whose caller has taken nothing for longest. */
  private idleOf(own: readonly RowHold[]): RowHold | undefined {
    const idle = own.filter((hold) => this.gathered.has(hold) && hold.asked !== undefined && performance.now() - hold.asked >= PATIENCE_MS)
    return idle.length === 0 ? undefined : idle.reduce((a, b) => ((b.asked as number) < (a.asked as number) ? b : a))
  }

  private wake(): void {
    const { waiting } = this
    this.waiting = []
    for (const resolve of waiting) resolve()
  }
}

/** Of this thread: what all queries of it hold is one sum. */
export const heldRows = new HeldRows()

interface Account {
  changed(by: number): void
  mustWait(): boolean
  mustWaitFor(bytes: number): boolean
  isRoomFor(bytes: number): boolean
  wait(): Promise<void>
  wake(): void
  gathered(): void
  gathers(): void
  ended(): void
}

/** Of one query. Whoever has it ends it, whatever happens. */
export class RowHold {
  readonly namespace: string
  bytes = 0
  /** Its query is ended. */
  over = false
  /** Since when its caller is waited for, in ms of the process; undefined = it is not. */
  asked: number | undefined
  /** Of all queries of the thread, in bytes. */
  readonly limit: number
  private readonly options: HoldOptions
  private readonly account: Account
  private readonly refused = Promise.withResolvers<never>()
  private sent = false
  /** Why it was ended to make room. */
  refusal: SvcError | undefined
  /** What it held when it was ended while it gathered. */
  madeRoom: number | undefined

  constructor(options: HoldOptions, limit: number, account: Account) {
    this.namespace = options.namespace
    this.options = options
    this.limit = limit
    this.account = account
    this.refused.promise.catch(() => {}) // it may be waiting for nothing
    options.signal.addEventListener('abort', account.wake, { once: true })
  }

  /** Whether others may have to wait for it. */
  get counts(): boolean {
    return !this.over && (this.bytes > 0 || this.options.least === undefined)
  }

  /** It holds so many bytes by now, and may come to hold more. @returns undefined = it may go on at once. @throws OVERLOADED when it was chosen to make room. */
  has(bytes: number): Promise<void> | undefined {
    if (this.over) return this.refused.promise
    const { least = 0 } = this.options
    this.set(bytes < least ? 0 : bytes)
    if (bytes < least) return undefined
    this.account.gathers()
    if (this.account.mustWait()) return this.turn()
    return this.over ? this.refused.promise : undefined
  }

  /** It is going to hold so many bytes in all: waits until there is room for them, or it is its turn, and counts them from then on. @throws OVERLOADED. */
  async reserve(bytes: number): Promise<void> {
    const counts = bytes >= (this.options.least ?? 0)
    while (counts && !this.over && this.account.mustWaitFor(bytes)) await this.wait()
    // In the same turn: others that wait look next.
    await this.has(bytes)
  }

  /** Begins once more, having held so many bytes before it had to make room. */
  async again(bytes: number): Promise<void> {
    if (bytes === 0) return
    while (!this.account.isRoomFor(bytes)) await this.wait()
    await this.reserve(bytes)
  }

  /**
   * The chunks of a scan, each as soon as it may be held. Nothing is read before there is room for what the scan itself takes.
   * @param held what is held of those that came before. @throws OVERLOADED.
   */
  async *chunks<T>(scan: AsyncIterable<T> & { readonly bytes?: number }, held: () => number): AsyncGenerator<T> {
    const own = scan.bytes ?? 0
    await this.reserve(held() + own)
    for await (const chunk of scan) {
      yield chunk
      const room = this.has(held() + own)
      if (room !== undefined) await room
    }
    if (!this.over) this.set(held())
  }

  /** All is there, until it has more: what it waits for from here on is its caller. */
  gathered(): void {
    this.sent = true
    if (!this.over) this.account.gathered()
  }

  /** Waits for its caller, unless it has to make room. @throws OVERLOADED. */
  async taken(by: Promise<void>): Promise<void> {
    by.catch(() => {}) // after it was refused nobody waits for it
    this.asked = performance.now()
    await Promise.race([this.refused.promise, by])
    this.asked = undefined
  }

  end(): void {
    this.options.signal.removeEventListener('abort', this.account.wake)
    this.set(0)
    this.over = true
    this.account.ended()
  }

  refuse(): void {
    if (!this.sent) this.madeRoom = this.bytes
    this.set(0)
    this.over = true
    this.refusal = new SvcError(
      'OVERLOADED',
      `cannot go on with the query: queries hold more than ${this.limit} bytes of rows, which is what server.max_held_memory allows; read answers as they come, ask fewer at once or for less, or raise it`,
    )
    this.refused.reject(this.refusal)
    this.account.wake()
  }

  /** @throws RangeError for bytes that are no number: the sum of all queries would be none from then on. */
  private set(bytes: number): void {
    if (!Number.isFinite(bytes)) throw new RangeError(`cannot hold ${bytes} bytes of rows`)
    const by = bytes - this.bytes
    this.bytes = bytes
    this.account.changed(by)
  }

  private async turn(): Promise<void> {
    while (this.account.mustWait()) await this.wait()
    if (this.over) return this.refused.promise
  }

  private async wait(): Promise<void> {
    await this.account.wait()
    this.options.signal.throwIfAborted()
  }
}
