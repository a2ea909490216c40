/** The authorities of tls.client_ca. OpenSSL takes any certificate among them, and then refuses each client of one that does not count: only its own log says why. */
import { X509Certificate } from 'node:crypto'
import { SvcError } from '../errors/index.ts'

const BEGINNING = /(?=-----BEGIN [A-Z0-9 ]*CERTIFICATE-----)/
/** So many are named, of a file that is another altogether. */
const MAX_TOLD = 3

/**
 * OpenSSL takes the certificates up to the first that it cannot read, or none: a file that is being written would shut clients out.
 * @throws TLS_ERROR naming the file.
 */
export function authoritiesOf(pem: Buffer, file: string): X509Certificate[] {
  const blocks = pem.toString('latin1').split(BEGINNING)
  const certificates = blocks.filter((block) => BEGINNING.test(block))
  const refuse = (why: string, cause?: unknown) => new SvcError('TLS_ERROR', `cannot use tls.client_ca "${file}": ${why}`, { cause })
  if (certificates.length === 0) throw refuse('it has no certificate; it is to hold those of the authorities, PEM')
  return certificates.map((certificate, i) => {
    try {
      return new X509Certificate(certificate)
    } catch (error) {
      throw refuse(`its certificate ${i + 1} of ${certificates.length} cannot be read: ${(error as Error).message}`, error)
    }
  })
}

/** What is wrong with one of them at any time, and what it is called. */
interface Authority {
  name: string
  flaw: string | undefined
  from: number
  to: number
}

export class ClientAuthorities {
  private readonly file: string
  private authorities: Authority[] = []
  private told = new Set<string>()

  constructor(file: string, pem: Buffer) {
    this.file = file
    this.renewed(pem)
  }

  /** Others are in use. */
  renewed(pem: Buffer): void {
    const certificates = authoritiesOf(pem, this.file)
    const bySubject = Map.groupBy(certificates, ({ subject }) => subject)
    this.authorities = certificates.map((certificate) => ({
      name: JSON.stringify(certificate.subject.replaceAll('\n', ', ').slice(0, 200)),
      flaw: flawOf(certificate, bySubject.get(certificate.issuer) ?? []),
      from: certificate.validFromDate.getTime(),
      to: certificate.validToDate.getTime(),
    }))
    this.told = new Set()
  }

  /** Why clients of some are refused at a time, and what to do. */
  problems(now: number): string[] {
    const all = this.authorities.flatMap((authority) => {
      const problem = authority.flaw ?? termProblem(authority, now)
      return problem === undefined ? [] : [`certificate ${authority.name} of tls.client_ca "${this.file}" ${problem}`]
    })
    const more = all.length - MAX_TOLD
    return more > 0 ? [...all.slice(0, MAX_TOLD), `clients of ${more} other certificates of tls.client_ca "${this.file}" are refused, too`] : all
  }

  /** Those of `problems` that it has not said yet. */
  news(now: number): string[] {
    const news = this.problems(now).filter((problem) => !this.told.has(problem))
    for (const problem of news) this.told.add(problem)
    return news
  }
}

/** @param named the certificates in the file that are called as its issuer. */
function flawOf(certificate: X509Certificate, named: readonly X509Certificate[]): string | undefined {
  if (certificate.subject === certificate.issuer)
    return certificate.ca
      ? undefined
      : 'is not marked as that of an authority (basicConstraints CA:TRUE, and keyCertSign where it has a keyUsage): clients that it has signed may be refused, and one that shows it itself is let in; put that of an authority in its place'
  // A chain ends at a certificate that has signed itself.
  if (named.some((issuer) => certificate.checkIssued(issuer))) return undefined
  const issuer = JSON.stringify(certificate.issuer.replaceAll('\n', ', ').slice(0, 200))
  return `is signed by ${issuer}, whose certificate is not in the file: no client is let in by it; add that one, up to the root, or put the authority that signs clients in its place`
}

function termProblem({ from, to }: Authority, now: number): string | undefined {
  if (now > to) return `expired at ${new Date(to).toISOString()}: clients that it has signed are refused; put a renewed one in its place`
  if (now < from) return `holds from ${new Date(from).toISOString()} only: clients that it has signed are refused until then; look whether the clock is right`
  return undefined
}
