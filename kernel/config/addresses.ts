/** Where a node listens, by its config: HTTP, and each plugin whose schema marks a key as the address of a listener of its own. */
import { isWildcard, parseAddress } from '../lib/network/index.ts'
import type { Schema } from './section.ts'
import { shown } from './shown.ts'

export interface ListenAddress {
  /** The key that sets it: `server.http_addr`. */
  key: string
  address: string
}

/** The addresses that a checked section sets. */
export function addressesOf(section: string, schema: Schema | undefined, values: unknown): ListenAddress[] {
  return Object.entries(schema?.properties ?? {}).flatMap(([name, property]) => {
    const address = (values as Record<string, unknown> | undefined)?.[name]
    return 'listens' in property && typeof address === 'string' ? [{ key: `${section}.${name}`, address }] : []
  })
}

/** What is wrong with them, one line each: no address at all, or one that another key has too. */
export function addressProblems(addresses: readonly ListenAddress[], file: string): string[] {
  const problems: string[] = []
  const taken: { key: string; address: string; host: string; port: number }[] = []
  for (const { key, address } of addresses) {
    try {
      const { host, port } = parseAddress(address)
      const other = taken.find((one) => port !== 0 && one.port === port && (one.host === host || isWildcard(one.host) || isWildcard(host)))
      if (other !== undefined) problems.push(`cannot use "${key}" "${address}" in ${file}: "${other.key}" is "${other.address}"; give each a port of its own`)
      taken.push({ key, address, host, port })
    } catch {
      problems.push(`cannot use "${key}" ${shown(address)}: write host:port, such as 127.0.0.1:8086`)
    }
  }
  return problems
}
