/** What every listener needs, whatever it speaks: addresses, TLS from files, hosts of an open server, bounded decompression. */
export { isLoopback, isWildcard, LISTENS, parseAddress, plainAddress } from './addresses.ts'
export { boundConnections } from './connections.ts'
export { type BodyLimit, type DecompressOptions, decompress, tooLarge } from './decompress.ts'
export { drainMs } from './drain.ts'
export { Handshakes } from './handshakes.ts'
export { type Arrival, HostGuard, type KnownHosts, openProblem } from './host-guard.ts'
export { refuseDuplicates } from './single-headers.ts'
export { type ClientCertificate, clientCertificate, readTls, type TlsLog, type TlsSettings, tlsOptions, tlsReload } from './tls.ts'
