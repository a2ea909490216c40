/**
 * Who is behind the proxies: the right-most address of the header that is no trusted proxy. Everything to the left of it may have been sent by the
 * caller, and is not looked at.
 */
import { isIPv4, isIPv6 } from 'node:net'
import { type Networks, plainAddress } from './address.ts'

/** Proxies in a row; beyond, the last one looked at counts as the caller. */
const MAX_HOPS = 32
/** Characters that one proxy adds. */
const MAX_ELEMENT = 1024

export type ProxyHeader = 'x-forwarded-for' | 'forwarded' | 'x-real-ip'

/** One pair of RFC 7239, section 4; values with ":" or "[" should be quoted, and are often not. */
const PAIR = /\s*([!#$%&'*+.^_`|~\w-]+)=(?:"((?:[^"\\]|\\.)*)"|([^\s";,=\\]+))\s*(?:;|$)/y

export class ForwardedAddress {
  private readonly header: ProxyHeader
  private readonly proxies: Networks
  private readonly read: (element: string) => string | undefined

  /** @param proxies empty = whoever connects is a proxy, and the only one. */
  constructor(header: ProxyHeader, proxies: Networks) {
    this.header = header
    this.proxies = proxies
    this.read = header === 'forwarded' ? readForwarded : readNode
  }

  /**
   * @param peer who has connected.
   * @returns the caller's address; the proxy's own where it does not say whom it speaks for.
   */
  of(peer: string, header: (name: string) => string | undefined): string {
    let address = plainAddress(peer)
    if (!this.proxies.empty && !this.proxies.has(address)) return address
    const text = header(this.header) ?? ''
    let end = text.length
    for (let hops = 0; hops < MAX_HOPS && end > 0; hops++) {
      const comma = text.lastIndexOf(',', end - 1)
      if (end - comma > MAX_ELEMENT) return address
      const element = text.slice(comma + 1, end).trim()
      end = comma
      if (element === '') continue
      const hop = this.read(element)
      if (hop === undefined) return address
      address = hop
      if (!this.proxies.has(hop)) return hop
    }
    return address
  }
}

/** An address, with or without a port; undefined for "unknown", names, and what is no address. */
export function readNode(text: string): string | undefined {
  if (text.length > 64) return undefined
  if (text.startsWith('[')) {
    const [, address] = /^\[([^\]%]+)\](?::\d{1,5})?$/.exec(text) ?? []
    return address !== undefined && isIPv6(address) ? plainAddress(address) : undefined
  }
  if (isIPv4(text)) return text
  const colon = text.indexOf(':')
  if (colon > 0 && /^\d{1,5}$/.test(text.slice(colon + 1)) && isIPv4(text.slice(0, colon))) return text.slice(0, colon)
  return !text.includes('%') && isIPv6(text) ? plainAddress(text) : undefined
}

/**
 * The node of one element of Forwarded. Elements are parted at every comma, also within quotes: an opening quote that the caller has sent must not
 * swallow what the proxy added behind it, and no node has a comma. What is left of one that had is no element, and undefined.
 */
export function readForwarded(element: string): string | undefined {
  let node: string | undefined
  PAIR.lastIndex = 0
  while (PAIR.lastIndex < element.length) {
    const pair = PAIR.exec(element)
    if (pair === null) return undefined
    const [, name, quoted, token] = pair
    if (name.toLowerCase() !== 'for') continue
    if (node !== undefined) return undefined
    node = token ?? quoted.replace(/\\(.)/g, '$1')
  }
  return node === undefined ? undefined : readNode(node)
}
