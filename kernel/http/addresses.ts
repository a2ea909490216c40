/** Where a node listens, by its config: HTTP, and each plugin whose schema marks a key as the address of a listener of its own. */
import { isIPv4 } from 'node:net'
import type { Schema } from '../config/section.ts'
import { SvcError } from '../lib/errors/index.ts'

export interface ListenAddress {
  /** The key that sets it: `server.http_addr`. */
  key: string
  address: string
}

/** For schemas: `Type.String({ ...LISTENS, default: '127.0.0.1:4243' })`. */
export const LISTENS = { listens: true } as const

/** Of a caller: a listener for both kinds of addresses shows IPv4 as IPv6, `::ffff:192.0.2.1`, which would be another address to limits and policies. */
export function plainAddress(address: string | undefined): string | undefined {
  return address?.replace(/^::ffff:(?=\d+\.\d+\.\d+\.\d+$)/i, '')
}

/** @throws CONFIG_ERROR. */
export function parseAddress(address: string): { host: string; port: number } {
  const match = /^(?:\[([^\]]+)\]|([^:]*)):(\d+)$/.exec(address)
  const port = Number(match?.[3])
  if (match === null || port > 65_535) throw new SvcError('CONFIG_ERROR', `cannot use address "${address}": write host:port, such as 127.0.0.1:8086`)
  return { host: match[1] ?? (match[2] || '0.0.0.0'), port }
}

/** Whether only this machine reaches it. */
export function isLoopback(host: string): boolean {
  const plain = plainAddress(host.toLowerCase())
  return plain === 'localhost' || plain === '::1' || (isIPv4(plain as string) && (plain as string).startsWith('127.'))
}

export function isWildcard(host: string): boolean {
  return host === '0.0.0.0' || host === '::'
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
      problems.push(`cannot use "${key}" "${address}": write host:port, such as 127.0.0.1:8086`)
    }
  }
  return problems
}
