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

/** What an operator can do about it, by the code of the system's error. */
const LISTEN_HINTS: Record<string, string> = {
  EADDRINUSE: 'another process has it, and `ss -ltnp` names that one; end it, or set another port',
  EACCES: 'the account may not have a port below 1024; set a higher one, or give the process CAP_NET_BIND_SERVICE',
  EADDRNOTAVAIL: 'this machine has no such address; set one of its own, or 0.0.0.0 for all',
  ENOTFOUND: 'the name has no address; set an address of this machine, or 0.0.0.0 for all',
}

/** Why a listener did not start, and what to do. @param key of the config, such as `grpc.addr`. */
export function cannotListen(key: string, address: string, error: NodeJS.ErrnoException): SvcError {
  const hint = LISTEN_HINTS[error.code ?? '']
  return new SvcError('IO_ERROR', `cannot listen on ${key} "${address}": ${error.message}${hint === undefined ? '' : `; ${hint}`}`, { cause: error })
}

/** Whether only this machine reaches it. */
export function isLoopback(host: string): boolean {
  const plain = plainAddress(host.toLowerCase())
  return plain === 'localhost' || plain === '::1' || (isIPv4(plain as string) && (plain as string).startsWith('127.'))
}

/** Whether a listener at it is reached by all addresses of the machine. */
export function isWildcard(host: string): boolean {
  return host === '0.0.0.0' || host === '::'
}
