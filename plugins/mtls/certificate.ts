/**
 * A client certificate, taken apart once for each connection. That its chain leads to an authority of tls.client_ca was checked in the handshake; what
 * can change afterwards, or is not checked there, is checked here. Whatever is not plain is refused: names decide who somebody is.
 */
import { X509Certificate } from 'node:crypto'
import type { IdentityKind } from './config.ts'

export interface Certificate {
  /** As the certificate has them; at least one. */
  names: readonly string[]
  /** Of what kind the names are: without a common name those of another. */
  kind: IdentityKind
  /** Milliseconds since the Unix epoch. */
  validFrom: number
  validTo: number
  /** 64 hexadecimal digits, lower case. */
  fingerprint: string
  serialNumber: string
}

/** RFC 5280, section 4.2.1.12: id-kp-clientAuth. */
const CLIENT_AUTH = '1.3.6.1.5.5.7.3.2'
/** How node prints the kinds of RFC 5280's GeneralName that are asked for. */
const SAN_KINDS: Record<Exclude<IdentityKind, 'cn'>, string> = { san_dns: 'DNS', san_uri: 'URI', san_email: 'email' }
const KIND_TEXTS: Record<IdentityKind, string> = {
  cn: 'neither a common name nor a DNS name',
  san_dns: 'no DNS name',
  san_uri: 'no URI among its alternative names',
  san_email: 'no e-mail address among its alternative names',
}
const MAX_NAME_LENGTH = 2048
/** The kinds beside common names are of printable ASCII (RFC 5280, section 4.2.1.6: IA5String). */
const PRINTABLE = /^[\x21-\x7e]+$/
/** Control characters, and what is not seen or turns text around, could make one name look like another. */
const DECEPTIVE = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]|^\s|\s$/u

/** @throws Error saying what is wrong with it. */
export function readCertificate(der: Uint8Array, identity: IdentityKind): Certificate {
  const x509 = new X509Certificate(der)
  // Absent, it is for any purpose. Node calls the extended usages keyUsage.
  if (x509.keyUsage !== undefined && !x509.keyUsage.includes(CLIENT_AUTH))
    throw new Error('its extended key usage does not have clientAuth; have it issued for clients')
  const { names, kind } = namesOf(x509, identity)
  if (names.length === 0) throw new Error(`it has ${KIND_TEXTS[identity]}; have it issued with one`)
  for (const name of names) checkName(name, kind)
  return {
    names: [...new Set(names)],
    kind,
    validFrom: timeOf(x509.validFromDate),
    validTo: timeOf(x509.validToDate),
    fingerprint: x509.fingerprint256.replaceAll(':', '').toLowerCase(),
    serialNumber: x509.serialNumber,
  }
}

/** Why it does not count at a time, or undefined. */
export function validityProblem({ validFrom, validTo }: Certificate, now: number): string | undefined {
  if (now < validFrom) return `it is valid from ${new Date(validFrom).toISOString()} on`
  return now > validTo ? `it has expired at ${new Date(validTo).toISOString()}` : undefined
}

function namesOf(x509: X509Certificate, identity: IdentityKind): Pick<Certificate, 'names' | 'kind'> {
  const san = (kind: Exclude<IdentityKind, 'cn'>) => ({
    kind,
    names: alternativeNames(x509.subjectAltName).flatMap((n) => (n.kind === SAN_KINDS[kind] ? n.name : [])),
  })
  if (identity !== 'cn') return san(identity)
  const names = commonNames(x509.subject ?? '')
  if (names.length > 1) throw new Error('it has several common names, which could mean several clients; have it issued with one')
  return names.length === 0 || names[0] === '' ? san('san_dns') : { kind: 'cn', names }
}

/** @param subject as node prints it: a line for each set of attributes, with " + " between those of one, both escaped in values (RFC 2253). */
function commonNames(subject: string): string[] {
  // The object that node makes of a certificate has values as they are, and ends the process for some certificates that it cannot make one of.
  const attributes = subject.split('\n').flatMap((line) => line.split(' + '))
  return attributes.flatMap((attribute) => (attribute.startsWith('CN=') ? unescaped(attribute.slice(3)) : []))
}

function unescaped(value: string): string {
  return value.replace(/\\(?:([\dA-F]{2})|(.))/gs, (_, code: string | undefined, char: string) =>
    code === undefined ? char : String.fromCharCode(Number.parseInt(code, 16)),
  )
}

/** One entry: its kind, of other names with a second one, then a value in quotes, which is a string of JSON, or one without anything special. */
const ENTRY = /(othername:[A-Za-z]+|[A-Za-z0-9 ]+):(?:("(?:[^"\\]|\\.)*")|([^",]*))(?:, (?=.)|$)/y

/** @param text as node prints them, with values quoted that could be taken for more than one. @throws Error for what is not so. */
export function alternativeNames(text: string | undefined): { kind: string; name: string }[] {
  const found: { kind: string; name: string }[] = []
  if (text === undefined) return found
  for (let at = 0; at < text.length; at = ENTRY.lastIndex) {
    ENTRY.lastIndex = at
    const match = ENTRY.exec(text)
    if (match === null) throw new Error('its alternative names cannot be read')
    const [, kind, quoted, plain] = match
    found.push({ kind, name: quoted === undefined ? plain : unquoted(quoted) })
  }
  return found
}

function unquoted(text: string): string {
  try {
    return JSON.parse(text) as string
  } catch {
    throw new Error('its alternative names cannot be read')
  }
}

function checkName(name: string, kind: IdentityKind): void {
  if (name.length > MAX_NAME_LENGTH) throw new Error(`its name has ${name.length} characters, of at most ${MAX_NAME_LENGTH}`)
  if (kind === 'cn' ? DECEPTIVE.test(name) : !PRINTABLE.test(name))
    throw new Error(`its name ${JSON.stringify(name.slice(0, 64))} has characters that no name may have`)
}

function timeOf(date: Date): number {
  const time = date.getTime()
  if (Number.isNaN(time)) throw new Error('its dates cannot be read')
  return time
}
