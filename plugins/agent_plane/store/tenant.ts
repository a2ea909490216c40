/** Where a tenant's keys lie. Those of `default` lie at the root, where they have been since before there were tenants. */
import type { StateRange, StateReader, StateStore, StateTransaction } from 'svcdb'
import { DEFAULT_TENANT } from 'svcdb/agents'

const PREFIX = 'tenant/'

/** The store as one tenant sees it: its own keys, and no others. Nothing in it lists without a prefix of its own. */
export function tenantState(state: StateStore, tenant: string): StateStore {
  if (tenant === DEFAULT_TENANT) return state
  const prefix = `${PREFIX}${tenant}/`
  return { ...readerOf(state, prefix), transaction: (body) => state.transaction((tx) => body(transactionOf(tx, prefix))) }
}

/** As `tenantState`, for reading. */
export function tenantReader(state: StateReader, tenant: string): StateReader {
  return tenant === DEFAULT_TENANT ? state : readerOf(state, `${PREFIX}${tenant}/`)
}

/** All that have anything in the store, `default` aside. */
export async function tenantsIn(state: StateReader): Promise<string[]> {
  const found: string[] = []
  for (let start = PREFIX; ; ) {
    const [first] = await state.list({ prefix: PREFIX, start, limit: 1 })
    if (first === undefined) return found
    const tenant = first.key.slice(PREFIX.length, first.key.indexOf('/', PREFIX.length))
    found.push(tenant)
    // What follows all keys of the tenant.
    start = `${PREFIX}${tenant}0`
  }
}

function readerOf(state: StateReader, own: string): StateReader {
  return {
    get: (key) => state.get(own + key),
    async list<T>({ prefix = '', start, end, limit }: StateRange = {}) {
      const range = {
        prefix: own + prefix,
        ...(start === undefined ? {} : { start: own + start }),
        ...(end === undefined ? {} : { end: own + end }),
        ...(limit === undefined ? {} : { limit }),
      }
      return (await state.list<T>(range)).map(({ key, value }) => ({ key: key.slice(own.length), value }))
    },
  }
}

function transactionOf(tx: StateTransaction, own: string): StateTransaction {
  return { ...readerOf(tx, own), put: (key, value) => tx.put(own + key, value), delete: (key) => tx.delete(own + key) }
}
