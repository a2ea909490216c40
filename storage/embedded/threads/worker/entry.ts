/** What an engine thread is started with: the rest of it is found faster than by Node.js' own way. */
import { findOwnModules } from 'svcdb/lib/modules'

findOwnModules()
await import('./main.ts')
