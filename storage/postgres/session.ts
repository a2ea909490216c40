/**
 * A connection that stays: it says that the store is in use.
 *
 * Invariants
 * - A node holds the lock `use` of the schema shared, whoever must be alone holds it exclusively. PostgreSQL takes it back with the connection, so that nothing
 *   is left of a process that was killed.
 * - A node that has lost the connection makes another, for as long as the store is open. Whoever must be alone does not go on: others may have come.
 */
import { setTimeout } from 'node:timers/promises'
import type { Client } from 'pg'
import type { StateUse } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import type { Connections } from './connections.ts'
import type { Link } from './link.ts'
import { LOCKS } from './tables.ts'

/** PostgreSQL notices within half a minute that a machine is gone. */
const KEEPALIVE = 'SET tcp_keepalives_idle = 10; SET tcp_keepalives_interval = 5; SET tcp_keepalives_count = 3'
const AGAIN_MS = 500

export class Session {
  private readonly connections: Connections
  private readonly link: Link
  private readonly schema: string
  private client: Client | undefined
  private readonly closing = new AbortController()

  constructor(connections: Connections, link: Link, schema: string) {
    this.connections = connections
    this.link = link
    this.schema = schema
  }

  /** One attempt. @throws CONFLICT where another's use does not go with it; NotConnected, and what PostgreSQL says. */
  async begin(use: Exclude<StateUse, 'read'>): Promise<void> {
    if (this.client !== undefined) return
    const client = await this.join(use)
    void this.keep(client, use)
  }

  async close(): Promise<void> {
    this.closing.abort()
    await this.client?.end().catch(() => {})
  }

  /** Never rejects. */
  private async keep(first: Client, use: Exclude<StateUse, 'read'>): Promise<void> {
    for (let client: Client | undefined = first; client !== undefined; client = await this.joinAgain()) {
      await new Promise((resolve) => client.once('end', resolve))
      this.client = undefined
      if (this.closing.signal.aborted) return
      this.link.note(new Error('the connection that holds the state store was lost'))
      if (use === 'exclusive')
        return this.link.refuse(
          new SvcError('OVERLOADED', 'cannot go on in the state store: the connection that kept others away was lost; run the command again'),
        )
    }
  }

  private async joinAgain(): Promise<Client | undefined> {
    while (!this.closing.signal.aborted) {
      try {
        const client = await this.join('shared')
        this.link.refuse(undefined)
        return client
      } catch (error) {
        // What runs alone there does not expect that anything changes.
        if (error instanceof SvcError) this.link.refuse(error)
        this.link.note(error)
        await setTimeout(AGAIN_MS, undefined, { signal: this.closing.signal }).catch(() => {})
      }
    }
    return undefined
  }

  private async join(use: Exclude<StateUse, 'read'>): Promise<Client> {
    const client = await this.connections.lasting()
    try {
      const lock = `${LOCKS.use}, hashtext('${this.schema}')`
      await client.query(KEEPALIVE)
      const { rows } = await client.query<{ held: boolean }>(`SELECT pg_try_advisory_lock${use === 'shared' ? '_shared' : ''}(${lock}) AS held`)
      if (!rows[0].held) throw occupied(use, await this.others(client))
      if (this.closing.signal.aborted) throw new SvcError('DATABASE_CLOSED', 'cannot use the state store: it is closed')
    } catch (error) {
      await client.end().catch(() => {})
      throw error
    }
    this.client = client
    return client
  }

  private async others(client: Client): Promise<string> {
    const { rows } = await client.query<{ name: string; at: string | null }>(
      `SELECT a.application_name AS name, host(a.client_addr) AS at FROM pg_locks l JOIN pg_stat_activity a USING (pid)
        WHERE l.locktype = 'advisory' AND l.granted AND l.classid::bigint = ${LOCKS.use} AND l.objid::bigint = hashtext($1)::bigint & 4294967295 AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())`,
      [this.schema],
    )
    return rows.map(({ name, at }) => `${name.replace(/^svc /, '')} at ${at ?? 'this host'}`).join(', ') || 'others'
  }
}

function occupied(use: StateUse, others: string): SvcError {
  return use === 'shared'
    ? new SvcError('CONFLICT', `cannot open the state store: a command works on it alone (${others}); start again when it has ended`)
    : new SvcError('CONFLICT', `cannot open the state store alone: nodes run on it (${others}); stop them, or ask one of them over its API`)
}
