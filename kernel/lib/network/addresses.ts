/** Addresses of listeners, `host:port`, and of callers. */
import { isIPv4 } from 'node:net'
import { SvcError } from '../errors/index.ts'

/** Marks a key of a schema as the address of a listener, which the node then checks beside those of the others: `Type.String({ ...LISTENS })`. */
export const LISTENS = { listens: true } as const

/** Of a caller: a listener for both kinds of addresses shows IPv4 as IPv6, `::ffff:192.0.2.1`, which would be another address to limits and policies. */
export function plainAddress(address: string | undefined): string | undefined {
  return address?.replace(/^::ffff:(?=\d+\.\d+\.\d+\.\d+$)/i, '')
}

/** @param address `host:port`, `[IPv6]:port` or `:port`, which is all addresses of IPv4; a port is 0 (any free one) to 65535. @throws CONFIG_ERROR. */
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
