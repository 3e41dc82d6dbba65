// Made by scripts/typescript_types.py from the server's operation kinds: don't edit, run `make types`.

import { trans } from '../language/translation';
import { IOperation } from './api';

/** Kinds during which other operations can be started. */
export const NON_EXCLUSIVE_KINDS: IOperation['kind'][] = [
  'tensorboard',
  'serve',
  'profile',
  'sync',
  'copy',
  'share',
  'save',
  'restore',
  'restart',
  'save-home',
  'restore-home',
  'guard'
];

/** The titles of an operation on the TPU *name*, by its state. */
export function kindTitles(
  kind: IOperation['kind'],
  name: string
): Record<IOperation['state'], string> {
  switch (kind) {
    case 'create':
      return {
        running: trans.__('Creating %1', name),
        done: trans.__('Created %1', name),
        cancelled: trans.__('Creating %1 was cancelled', name),
        failed: trans.__('%1 could not be created', name)
      };
    case 'hunt':
      return {
        running: trans.__('Hunting for %1', name),
        done: trans.__('Found capacity and created %1', name),
        cancelled: trans.__('The hunt for %1 was stopped', name),
        failed: trans.__('The hunt for %1 has failed', name)
      };
    case 'queue':
      return {
        running: trans.__('Asking Google for %1', name),
        done: trans.__('%1 is queued', name),
        cancelled: trans.__('%1 is not queued', name),
        failed: trans.__('%1 could not be queued', name)
      };
    case 'unqueue':
      return {
        running: trans.__('Deleting the queued resource %1', name),
        done: trans.__('Deleted the queued resource %1', name),
        cancelled: trans.__('No longer waiting for %1', name),
        failed: trans.__('The queued resource %1 could not be deleted', name)
      };
    case 'start':
      return {
        running: trans.__('Starting %1', name),
        done: trans.__('Started %1', name),
        cancelled: trans.__('No longer waiting for %1', name),
        failed: trans.__('%1 could not be started', name)
      };
    case 'stop':
      return {
        running: trans.__('Stopping %1', name),
        done: trans.__('Stopped %1', name),
        cancelled: trans.__('No longer waiting for %1', name),
        failed: trans.__('%1 could not be stopped', name)
      };
    case 'delete':
      return {
        running: trans.__('Deleting %1', name),
        done: trans.__('Deleted %1', name),
        cancelled: trans.__('No longer waiting for %1', name),
        failed: trans.__('%1 could not be deleted', name)
      };
    case 'report':
      return {
        running: trans.__('Reporting a host of %1', name),
        done: trans.__('Reported a host of %1', name),
        cancelled: trans.__('No longer waiting for %1', name),
        failed: trans.__('A host of %1 could not be reported', name)
      };
    case 'connect':
      return {
        running: trans.__('Connecting %1', name),
        done: trans.__('Connected %1', name),
        cancelled: trans.__('Connecting %1 was cancelled', name),
        failed: trans.__('%1 could not be connected', name)
      };
    case 'disconnect':
      return {
        running: trans.__('Disconnecting %1', name),
        done: trans.__('Disconnected %1', name),
        cancelled: trans.__('Disconnecting %1 was cancelled', name),
        failed: trans.__('%1 could not be disconnected', name)
      };
    case 'detach':
      return {
        running: trans.__('Detaching %1', name),
        done: trans.__('Detached %1', name),
        cancelled: trans.__('Detaching %1 was cancelled', name),
        failed: trans.__('%1 could not be detached', name)
      };
    case 'environment':
      return {
        running: trans.__('Changing an environment on %1', name),
        done: trans.__('Changed an environment on %1', name),
        cancelled: trans.__('Changing an environment on %1 was cancelled', name),
        failed: trans.__('An environment on %1 could not be changed', name)
      };
    case 'tensorboard':
      return {
        running: trans.__('Opening TensorBoard on %1', name),
        done: trans.__('Opened TensorBoard on %1', name),
        cancelled: trans.__('Opening TensorBoard on %1 was cancelled', name),
        failed: trans.__('TensorBoard on %1 could not be opened', name)
      };
    case 'ray':
      return {
        running: trans.__('Starting Ray on %1', name),
        done: trans.__('Started Ray on %1', name),
        cancelled: trans.__('Starting Ray on %1 was cancelled', name),
        failed: trans.__('Ray could not be started on %1', name)
      };
    case 'serve':
      return {
        running: trans.__('Starting a server on %1', name),
        done: trans.__('A server on %1 is healthy', name),
        cancelled: trans.__('Starting a server on %1 was cancelled', name),
        failed: trans.__('A server on %1 could not be started', name)
      };
    case 'profile':
      return {
        running: trans.__('Tracing %1', name),
        done: trans.__('Traced %1', name),
        cancelled: trans.__('Tracing %1 was cancelled', name),
        failed: trans.__('%1 could not be traced', name)
      };
    case 'compile':
      return {
        running: trans.__('Compiling'),
        done: trans.__('Compiled'),
        cancelled: trans.__('Compiling was cancelled'),
        failed: trans.__('The program could not be compiled')
      };
    case 'plan':
      return {
        running: trans.__('Comparing types for a step'),
        done: trans.__('Compared types for a step'),
        cancelled: trans.__('Comparing types was cancelled'),
        failed: trans.__('The types could not be compared')
      };
    case 'sync':
      return {
        running: trans.__('Syncing a folder with %1', name),
        done: trans.__('Synced a folder with %1', name),
        cancelled: trans.__('Syncing a folder with %1 has ended', name),
        failed: trans.__('A folder could not be synced with %1', name)
      };
    case 'copy':
      return {
        running: trans.__('Copying files to or from %1', name),
        done: trans.__('Copied files to or from %1', name),
        cancelled: trans.__('Copying files to or from %1 was cancelled', name),
        failed: trans.__('Not all files were copied to or from %1', name)
      };
    case 'share':
      return {
        running: trans.__('Sharing a folder of %1', name),
        done: trans.__('Shared a folder of %1', name),
        cancelled: trans.__('Sharing a folder of %1 was cancelled', name),
        failed: trans.__('A folder of %1 could not be shared', name)
      };
    case 'save':
      return {
        running: trans.__('Saving variables of kernels on %1', name),
        done: trans.__('Saved variables of kernels on %1', name),
        cancelled: trans.__('Saving variables of kernels on %1 was cancelled', name),
        failed: trans.__('Not all variables of kernels on %1 were saved', name)
      };
    case 'restore':
      return {
        running: trans.__('Restoring variables of a kernel on %1', name),
        done: trans.__('Restored variables of a kernel on %1', name),
        cancelled: trans.__('Restoring variables of a kernel on %1 was cancelled', name),
        failed: trans.__('The variables of a kernel on %1 could not be restored', name)
      };
    case 'restart':
      return {
        running: trans.__('Restarting a kernel on %1 with its variables', name),
        done: trans.__('Restarted a kernel on %1 with its variables', name),
        cancelled: trans.__('Restarting a kernel on %1 was cancelled', name),
        failed: trans.__('A kernel on %1 could not be restarted with its variables', name)
      };
    case 'save-home':
      return {
        running: trans.__('Saving home folders of %1', name),
        done: trans.__('Saved home folders of %1', name),
        cancelled: trans.__('Saving home folders of %1 was cancelled', name),
        failed: trans.__('The home folders of %1 could not be saved', name)
      };
    case 'restore-home':
      return {
        running: trans.__('Restoring home folders on %1', name),
        done: trans.__('Restored home folders on %1', name),
        cancelled: trans.__('Restoring home folders on %1 was cancelled', name),
        failed: trans.__('Not all home folders were restored on %1', name)
      };
    case 'guard':
      return {
        running: trans.__('Setting the guard of %1', name),
        done: trans.__('Set the guard of %1', name),
        cancelled: trans.__('Setting the guard of %1 was cancelled', name),
        failed: trans.__('The guard of %1 could not be set', name)
      };
  }
}
