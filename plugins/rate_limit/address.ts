/** Addresses as text: read, compared with networks, and what counts as one caller. */
import { BlockList, isIPv4, isIPv6 } from 'node:net'

const groups = new Uint16Array(8)

/** What is limited and banned as one: an IPv4 address, also where it is written as IPv6, or the /64 of an IPv6 address, which one caller has whole. */
export function callerOf(address: string): string {
  if (!address.includes(':') || !readGroups(address)) return address
  if (isMapped()) return dotted()
  return `${groups[0].toString(16)}:${groups[1].toString(16)}:${groups[2].toString(16)}:${groups[3].toString(16)}::/64`
}

/** Without a zone, in lower case, and IPv4 as such. @param address of a socket, or one that `isIP` accepts. */
export function plainAddress(address: string): string {
  if (!address.includes(':')) return address
  if (readGroups(address) && isMapped()) return dotted()
  const zone = address.indexOf('%')
  return (zone < 0 ? address : address.slice(0, zone)).toLowerCase()
}

/** IPv4 in IPv6, RFC 4291, section 2.5.5.2. */
function isMapped(): boolean {
  return groups[5] === 0xffff && groups[4] === 0 && groups[3] === 0 && groups[2] === 0 && groups[1] === 0 && groups[0] === 0
}

function dotted(): string {
  return `${groups[6] >> 8}.${groups[6] & 0xff}.${groups[7] >> 8}.${groups[7] & 0xff}`
}

/** Of an address or a caller in the form of `callerOf`; undefined for other text. */
export function readCaller(text: string): string | undefined {
  const address = text.endsWith('/64') ? text.slice(0, -3) : text
  if (isIPv4(text) || isIPv6(text)) return callerOf(text)
  return isIPv6(address) ? callerOf(address) : undefined
}

/** Fills `groups`; a zone is left out. */
function readGroups(text: string): boolean {
  let at = 0
  /** Where "::" stands. */
  let gap = -1
  let value = 0
  let digits = 0
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i)
    if (code === 0x3a) {
      if (digits > 0) {
        if (at > 7) return false
        groups[at++] = value
        value = digits = 0
      } else if (i > 0 && text.charCodeAt(i - 1) === 0x3a) {
        if (gap >= 0) return false
        gap = at
      }
      continue
    }
    if (code === 0x2e) return readDotted(text, i - digits, at, gap)
    if (code === 0x25) break
    const letter = code | 0x20
    const digit = code >= 0x30 && code <= 0x39 ? code - 0x30 : letter >= 0x61 && letter <= 0x66 ? letter - 0x57 : -1
    if (digit < 0 || ++digits > 4) return false
    value = value * 16 + digit
  }
  if (digits > 0) {
    if (at > 7) return false
    groups[at++] = value
  }
  return spread(at, gap)
}

/** The last 32 bits as IPv4. */
function readDotted(text: string, from: number, at: number, gap: number): boolean {
  const last = text.slice(from)
  if (at > 6 || !isIPv4(last)) return false
  const [a, b, c, d] = last.split('.').map(Number)
  groups[at++] = a * 256 + b
  groups[at++] = c * 256 + d
  return spread(at, gap)
}

/** Puts the zeros where "::" stands. */
function spread(count: number, gap: number): boolean {
  if (gap < 0) return count === 8
  if (count > 7) return false
  const zeros = 8 - count
  groups.copyWithin(gap + zeros, gap, count)
  groups.fill(0, gap, gap + zeros)
  return true
}

/** Some addresses and networks. */
export class Networks {
  private readonly list = new BlockList()
  readonly empty: boolean

  /** @param key that has the texts, for the message. @throws Error naming a text that is neither an address nor a network. */
  constructor(texts: readonly string[], key: string) {
    this.empty = texts.length === 0
    for (const text of texts) this.add(text, key)
  }

  /** @param address in the form of `plainAddress`. */
  has(address: string): boolean {
    return !this.empty && this.list.check(address, address.includes(':') ? 'ipv6' : 'ipv4')
  }

  private add(text: string, key: string): void {
    const [, address, bits] = /^([^/%]+)(?:\/(\d{1,3}))?$/.exec(text) ?? []
    const family = address === undefined ? undefined : isIPv4(address) ? 'ipv4' : isIPv6(address) ? 'ipv6' : undefined
    const most = family === 'ipv4' ? 32 : 128
    if (family === undefined || Number(bits ?? most) > most) {
      throw new Error(`cannot use ${key} "${text}": it is neither an address nor a network; write 10.1.2.3, 10.0.0.0/8 or 2001:db8::/32`)
    }
    this.list.addSubnet(address, Number(bits ?? most), family)
  }
}
