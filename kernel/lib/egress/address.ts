/** Which addresses and names may be sent to: those of the public Internet. By the special-purpose registries of IANA (RFC 6890 and what updates it). */
import ipaddr from 'ipaddr.js'

/** Where all IPv6 unicast addresses are that are given out. */
const GLOBAL_V6 = ipaddr.IPv6.parse('2000::')
/** RFC 6052: what translates them sends to the IPv4 address within, which counts. */
const NAT64 = ipaddr.IPv6.parse('64:ff9b::')

/** @param text an address, as resolvers, sockets and URLs have it, without brackets. @returns undefined = it is public, or what it is instead. */
export function addressProblem(text: string): string | undefined {
  if (!ipaddr.isValid(text)) return 'no address'
  const address = ipaddr.parse(text)
  if (address.kind() === 'ipv4') return specialRange(address)
  const v6 = address as ipaddr.IPv6
  if (v6.zoneId) return 'an address of this link'
  if (v6.isIPv4MappedAddress()) return specialRange(v6.toIPv4Address())
  if (v6.match(NAT64, 96)) return specialRange(new ipaddr.IPv4(v6.toByteArray().slice(12)))
  return specialRange(v6) ?? (v6.match(GLOBAL_V6, 3) ? undefined : 'an address that is not in use')
}

function specialRange(address: ipaddr.IPv4 | ipaddr.IPv6): string | undefined {
  const range = address.range()
  return range === 'unicast' ? undefined : `an address of the range "${range}"`
}

/** Names that lead inside by convention: RFC 6761, 6762, 8375, 9476, and what networks at home and at work use. */
const INTERNAL = ['localhost', 'localdomain', 'local', 'internal', 'intranet', 'private', 'corp', 'home', 'lan', 'home.arpa', 'onion', 'invalid', 'alt']

/** @param host in lower case, as a URL has it. */
export function isInternalName(host: string): boolean {
  const name = host.replace(/\.$/, '')
  return !name.includes('.') || INTERNAL.some((suffix) => name === suffix || name.endsWith(`.${suffix}`))
}

/** Of a URL: undefined for a name. */
export function literalAddress(hostname: string): string | undefined {
  const bare = hostname.startsWith('[') ? hostname.slice(1, -1) : hostname
  return ipaddr.isValid(bare) ? bare : undefined
}
