/**
 * Reads of what is stored. Single keys that are asked for while others are on their way go together, in one statement.
 *
 * Invariant: an owner has few statements under way. Connections are given in the order in which they are asked for, so whoever asks for very much waits for
 * itself, and the heartbeat of a node does not wait behind it.
 */
import type { Row } from './digest.ts'
import type { Link } from './link.ts'
import type { Bounds } from './ranges.ts'
import type { Statements } from './tables.ts'

/** Statements for single keys that an owner has under way at most: what is asked for meanwhile is the next one. */
const MAX_UNDER_WAY = 2
const MAX_KEYS = 500
/** Listings and checks of an owner, likewise. */
const MAX_WHOLE = 4

interface Stored {
  key: Buffer
  value: Buffer
}

interface Asked {
  key: string
  resolve(text: string | undefined): void
  reject(error: unknown): void
}

interface Waiting {
  asked: Asked[]
  underWay: number
}

interface Whole {
  /** Each begins one, the oldest first. */
  begins: (() => void)[]
  underWay: number
}

export class Reads {
  private readonly link: Link
  private readonly statements: Statements
  private readonly owners = new Map<string, Waiting>()
  private readonly whole = new Map<string, Whole>()

  constructor(link: Link, statements: Statements) {
    this.link = link
    this.statements = statements
  }

  get(owner: string, key: string): Promise<string | undefined> {
    let waiting = this.owners.get(owner)
    if (waiting === undefined) this.owners.set(owner, (waiting = { asked: [], underWay: 0 }))
    const { asked } = waiting
    return new Promise((resolve, reject) => {
      asked.push({ key, resolve, reject })
      this.ask(owner, waiting)
    })
  }

  async list(owner: string, { from, until, limit }: Bounds): Promise<Row[]> {
    if (limit === 0) return []
    const rows = await this.inTurn(owner, () =>
      this.link.read<Stored>('list state', { name: 'svc-list', text: this.statements.list }, [owner, from, until, limit]),
    )
    return rows.map(({ key, value }) => ({ key: key.toString(), text: value.toString() }))
  }

  /** Whether what was read is another now. @param values of the statement, behind the owner. */
  async isStale(owner: string, values: readonly unknown[]): Promise<boolean> {
    const check = { name: 'svc-check', text: this.statements.isStale }
    const [{ stale }] = await this.inTurn(owner, () => this.link.read<{ stale: boolean }>('check a state transaction', check, [owner, ...values]))
    return stale
  }

  /** The oldest of an owner first. */
  private async inTurn<T>(owner: string, read: () => Promise<T>): Promise<T> {
    let whole = this.whole.get(owner)
    if (whole === undefined) this.whole.set(owner, (whole = { begins: [], underWay: 0 }))
    const { begins } = whole
    if (whole.underWay < MAX_WHOLE) whole.underWay++
    else await new Promise<void>((begin) => void begins.push(begin))
    try {
      return await read()
    } finally {
      // Whoever is next has the turn of this one.
      const next = begins.shift()
      if (next === undefined) whole.underWay--
      else next()
    }
  }

  private ask(owner: string, waiting: Waiting): void {
    while (waiting.underWay < MAX_UNDER_WAY && waiting.asked.length > 0) {
      const asked = waiting.asked.splice(0, MAX_KEYS)
      waiting.underWay++
      void this.fetch(owner, asked).finally(() => {
        waiting.underWay--
        this.ask(owner, waiting)
      })
    }
  }

  private async fetch(owner: string, asked: readonly Asked[]): Promise<void> {
    try {
      const keys = [...new Set(asked.map(({ key }) => key))].map((key) => Buffer.from(key))
      const rows = await this.link.read<Stored>('read state', { name: 'svc-get', text: this.statements.get }, [owner, keys])
      const texts = new Map(rows.map(({ key, value }) => [key.toString(), value.toString()]))
      for (const { key, resolve } of asked) resolve(texts.get(key))
    } catch (error) {
      for (const { reject } of asked) reject(error)
    }
  }
}
