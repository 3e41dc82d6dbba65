// The one file that calls the server extension's REST interface.

import { URLExt } from '@jupyterlab/coreutils';
import { ServerConnection } from '@jupyterlab/services';

import {
  IAddSSHKey,
  IAdoptTPU,
  IApp,
  IAppVisit,
  IAttachMachine,
  ICatalog,
  IChipKernels,
  IChipUse,
  IChangePackages,
  IConnectTPU,
  ICopyFiles,
  ICreateTPU,
  IDeleteQueued,
  IDeleteTPU,
  IDetachMachine,
  IDisconnectTPU,
  IFleetStatus,
  ICheckSetup,
  IGrant,
  IGrantUse,
  IDiagnosis,
  IFoundPythons,
  IFreeChips,
  IFreedChips,
  IGuard,
  IHostFile,
  IHunt,
  IHuntCandidate,
  IInstalledPackage,
  IJob,
  IJobLog,
  IKeepTPU,
  IKernel,
  IMachineCheck,
  IMemoryProfiles,
  INetworkSetup,
  IOpenApp,
  IOpenTensorBoard,
  IOpenTunnel,
  IOperation,
  IPassTokens,
  IProfileTPU,
  IQueuedResource,
  IQueuedResources,
  IQuote,
  IRemoveEnvironment,
  IRemoveGuard,
  IResetQueued,
  IRun,
  IRunOutput,
  ISetGuard,
  ISetLogging,
  ISetUpNetwork,
  ISharedFolders,
  IShareFolder,
  ISplitChips,
  IStartHunt,
  IStartJob,
  IStartRun,
  IStartTPU,
  IStopTPU,
  ISyncProject,
  IStopTrying,
  ITPU,
  ITPUList,
  ITPULoad,
  ITPULogging,
  IToken,
  ITunnel,
  IUsage,
  IUsedTPU,
  IVisitApp,
  ISSHKeyStatus
} from '../api';
import { bodyOf, Failure, failureOf } from './failure';
import { TPURef } from './resources';
import { IUploadOptions, putFile } from './upload';

/** The server extension. Every method throws `Failure`. */
export class TPUClient {
  constructor(private _settings: ServerConnection.ISettings) {}

  catalog(): Promise<ICatalog> {
    return this._call('GET', ['catalog']);
  }

  status(): Promise<IFleetStatus> {
    return this._call('GET', ['status']);
  }

  /** fresh: Google is asked now, for somebody who looks. */
  tpus(fresh = false): Promise<ITPUList> {
    return this._list(['tpus'], fresh);
  }

  quote(request: ICreateTPU): Promise<IQuote> {
    return this._call('POST', ['quotes'], request);
  }

  create(request: ICreateTPU): Promise<IOperation> {
    return this._call('POST', ['tpus'], request);
  }

  start(tpu: TPURef, how: IStartTPU = {}): Promise<IOperation> {
    return this._call('POST', [...this._path(tpu), 'start'], how);
  }

  stop(tpu: TPURef, how: IStopTPU = {}): Promise<IOperation> {
    return this._call('POST', [...this._path(tpu), 'stop'], how);
  }

  connect(tpu: TPURef, request: IConnectTPU = {}): Promise<IOperation> {
    return this._call('POST', [...this._path(tpu), 'connect'], request);
  }

  disconnect(tpu: TPURef, how: IDisconnectTPU = {}): Promise<IOperation> {
    return this._call('POST', [...this._path(tpu), 'disconnect'], how);
  }

  delete(tpu: TPURef, how: IDeleteTPU = {}): Promise<IOperation> {
    return this._call('DELETE', this._path(tpu), how);
  }

  adopt(tpu: TPURef, how: IAdoptTPU): Promise<IUsedTPU> {
    return this._call('POST', [...this._path(tpu), 'adopt'], how);
  }

  checkMachine(
    request: IAttachMachine,
    signal?: AbortSignal
  ): Promise<IMachineCheck> {
    return this._call('POST', ['attach-checks'], request, {}, signal);
  }

  attach(request: IAttachMachine, signal?: AbortSignal): Promise<ITPU> {
    return this._call('POST', ['attached'], request, {}, signal);
  }

  detach(tpu: TPURef, how: IDetachMachine = {}): Promise<IOperation> {
    return this._call('DELETE', ['attached', ...this._path(tpu).slice(1)], how);
  }

  check(tpu: TPURef, signal?: AbortSignal): Promise<IDiagnosis> {
    const path = [...this._path(tpu), 'doctor'];
    return this._call('POST', path, {}, {}, signal);
  }

  checkSetup(request: ICheckSetup, signal?: AbortSignal): Promise<IDiagnosis> {
    return this._call('POST', ['doctor'], request, {}, signal);
  }

  setUpNetwork(
    request: ISetUpNetwork,
    signal?: AbortSignal
  ): Promise<INetworkSetup> {
    return this._call('POST', ['networks'], request, {}, signal);
  }

  addSSHKey(
    request: Partial<IAddSSHKey>,
    signal?: AbortSignal
  ): Promise<ISSHKeyStatus> {
    return this._call('POST', ['ssh-key'], request, {}, signal);
  }

  /** projects: their IDs with commas; "" for the server's own. */
  usage(projects: string): Promise<IUsage> {
    return this._call(
      'GET',
      ['usage'],
      undefined,
      projects ? { projects } : {}
    );
  }

  /** fresh: as for `tpus`. */
  queued(fresh = false): Promise<IQueuedResources> {
    return this._list(['queued'], fresh);
  }

  deleteQueued(queued: TPURef, how: IDeleteQueued): Promise<IOperation> {
    const { name, zone } = queued;
    return this._call('DELETE', ['queued', `${zone}~${name}`], how);
  }

  resetQueued(queued: TPURef, how: IResetQueued): Promise<IQueuedResource> {
    const { name, zone } = queued;
    return this._call('POST', ['queued', `${zone}~${name}`, 'reset'], how);
  }

  hunts(): Promise<IHunt[]> {
    return this._call('GET', ['hunts']);
  }

  startHunt(request: IStartHunt): Promise<IHunt> {
    return this._call('POST', ['hunts'], request);
  }

  /** What a hunt would try, and what that costs. */
  huntQuote(request: IStartHunt): Promise<IHuntCandidate[]> {
    return this._call('POST', ['hunt-quotes'], request);
  }

  grants(): Promise<IGrantUse[]> {
    return this._call('GET', ['grants']);
  }

  addGrant(grant: IGrant): Promise<IGrantUse[]> {
    return this._call('POST', ['grants'], grant);
  }

  removeGrant(name: string): Promise<void> {
    return this._call('DELETE', ['grants', name]);
  }

  tokens(): Promise<IToken[]> {
    return this._call('GET', ['tokens']);
  }

  passTokens(request: IPassTokens): Promise<IToken[]> {
    return this._call('POST', ['tokens'], request);
  }

  removeToken(name: string): Promise<void> {
    return this._call('DELETE', ['tokens', name]);
  }

  /** The guard of a TPU, as its host says; null if it has none. */
  async guard(tpu: TPURef): Promise<IGuard | null> {
    try {
      return await this._call<IGuard>('GET', [...this._path(tpu), 'guard']);
    } catch (error) {
      if (error instanceof Failure && error.reason === 'NOT_FOUND') {
        return null;
      }
      throw error;
    }
  }

  setGuard(tpu: TPURef, request: ISetGuard): Promise<IGuard> {
    return this._call('POST', [...this._path(tpu), 'guard'], request);
  }

  removeGuard(tpu: TPURef, how: IRemoveGuard): Promise<void> {
    return this._call('DELETE', [...this._path(tpu), 'guard'], how);
  }

  /** Keeps a TPU for an hour, whatever the limits of its guard are. */
  async keep(tpu: TPURef, how: IKeepTPU): Promise<void> {
    await this._call('POST', [...this._path(tpu), 'guard', 'keep'], how);
  }

  /** Whether Cloud Logging stores the logs of its hosts. */
  logging(tpu: TPURef, signal?: AbortSignal): Promise<ITPULogging> {
    const path = [...this._path(tpu), 'logging'];
    return this._call('GET', path, undefined, {}, signal);
  }

  setLogging(tpu: TPURef, request: ISetLogging): Promise<ITPULogging> {
    return this._call('POST', [...this._path(tpu), 'logging'], request);
  }

  chips(tpu: TPURef): Promise<IChipUse> {
    return this._call('GET', [...this._path(tpu), 'chips']);
  }

  freeChips(tpu: TPURef, request: IFreeChips): Promise<IFreedChips> {
    return this._call('POST', [...this._path(tpu), 'chips', 'free'], request);
  }

  splitChips(tpu: TPURef, request: ISplitChips): Promise<IChipKernels> {
    return this._call('POST', [...this._path(tpu), 'chips', 'split'], request);
  }

  /** Memory and load of the chips: the samples after an answer's `next`; 0: all. */
  load(tpu: TPURef, from: number): Promise<ITPULoad> {
    const path = [...this._path(tpu), 'metrics'];
    return this._call('GET', path, undefined, { from: `${from}` });
  }

  /** What fills the memory of the devices, in each kernel. */
  memory(tpu: TPURef, signal?: AbortSignal): Promise<IMemoryProfiles> {
    const path = [...this._path(tpu), 'memory'];
    return this._call('GET', path, undefined, {}, signal);
  }

  profile(tpu: TPURef, request: IProfileTPU = {}): Promise<IOperation> {
    return this._call('POST', [...this._path(tpu), 'profiles'], request);
  }

  pythons(tpu: TPURef): Promise<IFoundPythons> {
    return this._call('GET', [...this._path(tpu), 'pythons']);
  }

  packages(tpu: TPURef, environment: string): Promise<IInstalledPackage[]> {
    const path = [...this._environment(tpu, environment), 'packages'];
    return this._call('GET', path);
  }

  changePackages(
    tpu: TPURef,
    environment: string,
    change: IChangePackages
  ): Promise<IOperation> {
    const path = [...this._environment(tpu, environment), 'packages'];
    return this._call('POST', path, change);
  }

  syncEnvironment(tpu: TPURef, environment: string): Promise<IOperation> {
    const path = [...this._environment(tpu, environment), 'sync'];
    return this._call('POST', path);
  }

  removeEnvironment(
    tpu: TPURef,
    environment: string,
    how: IRemoveEnvironment = {}
  ): Promise<IOperation> {
    return this._call('DELETE', this._environment(tpu, environment), how);
  }

  kernels(tpu: TPURef): Promise<IKernel[]> {
    return this._call('GET', [...this._path(tpu), 'kernels']);
  }

  shutDownKernel(tpu: TPURef, id: string): Promise<void> {
    return this._call('DELETE', [...this._path(tpu), 'kernels', id]);
  }

  takeOverKernel(tpu: TPURef, id: string): Promise<void> {
    return this._call('POST', [...this._path(tpu), 'kernels', id, 'take']);
  }

  copy(tpu: TPURef, request: ICopyFiles): Promise<IOperation> {
    return this._call('POST', [...this._path(tpu), 'copies'], request);
  }

  /** Asks all hosts. */
  shares(tpu: TPURef): Promise<ISharedFolders> {
    return this._call('GET', [...this._path(tpu), 'shares']);
  }

  share(tpu: TPURef, request: IShareFolder): Promise<IOperation> {
    return this._call('POST', [...this._path(tpu), 'shares'], request);
  }

  sync(tpu: TPURef, request: ISyncProject): Promise<IOperation> {
    return this._call('POST', [...this._path(tpu), 'sync'], request);
  }

  /** The name of a new terminal of the Jupyter server, which is a shell on a host. */
  openTerminal(tpu: TPURef, host: number): Promise<{ name: string }> {
    const path = [...this._path(tpu), 'hosts', `${host}`, 'terminals'];
    return this._call('POST', path, {});
  }

  /** What a file of a host is. */
  file(tpu: TPURef, host: number, path: string): Promise<IHostFile> {
    return this._call('GET', this._files(tpu, host), undefined, { path });
  }

  /** Where the browser downloads a file of a host from. */
  fileURL(tpu: TPURef, host: number, path: string): string {
    return this._url([...this._files(tpu, host), 'content'], { path });
  }

  async upload(
    tpu: TPURef,
    host: number,
    path: string,
    content: Blob,
    options: IUploadOptions = {}
  ): Promise<IHostFile> {
    const url = this._url([...this._files(tpu, host), 'content'], {
      path,
      overwrite: String(options.overwrite ?? false)
    });
    let answer: { status: number; text: string };
    try {
      answer = await putFile(url, content, this._settings, options);
    } catch {
      throw new Failure('', 'NETWORK');
    }
    if (answer.status === 201) {
      return bodyOf(answer.text);
    }
    throw failureOf(answer.status, answer.text);
  }

  startRun(tpu: TPURef, request: IStartRun): Promise<IRun> {
    return this._call('POST', [...this._path(tpu), 'runs'], request);
  }

  /** Waits for output from an offset on, or for the end. */
  runOutput(
    tpu: TPURef,
    id: string,
    from: number,
    signal: AbortSignal
  ): Promise<IRunOutput> {
    const path = [...this._path(tpu), 'runs', id, 'output'];
    return this._call('GET', path, undefined, { from: `${from}` }, signal);
  }

  stopRun(tpu: TPURef, id: string): Promise<IRun> {
    return this._call('DELETE', [...this._path(tpu), 'runs', id]);
  }

  jobs(): Promise<IJob[]> {
    return this._call('GET', ['jobs']);
  }

  startJob(tpu: TPURef, request: IStartJob): Promise<IJob> {
    return this._call('POST', [...this._path(tpu), 'jobs'], request);
  }

  stopJob(tpu: TPURef, id: string): Promise<IJob> {
    return this._call('POST', [...this._path(tpu), 'jobs', id, 'stop'], {});
  }

  removeJob(tpu: TPURef, id: string): Promise<void> {
    return this._call('DELETE', [...this._path(tpu), 'jobs', id]);
  }

  /** A part of a job's output on one host; *query* as REST has it. */
  jobLog(
    tpu: TPURef,
    id: string,
    query: { [name: string]: string },
    signal: AbortSignal
  ): Promise<IJobLog> {
    const path = [...this._path(tpu), 'jobs', id, 'log'];
    return this._call('GET', path, undefined, query, signal);
  }

  tunnels(): Promise<ITunnel[]> {
    return this._call('GET', ['tunnels']);
  }

  openTunnel(tpu: TPURef, request: IOpenTunnel): Promise<ITunnel> {
    return this._call('POST', [...this._path(tpu), 'tunnels'], request);
  }

  closeTunnel(tpu: TPURef, id: string): Promise<void> {
    return this._call('DELETE', [...this._path(tpu), 'tunnels', id]);
  }

  apps(): Promise<IApp[]> {
    return this._call('GET', ['apps']);
  }

  openApp(tpu: TPURef, request: IOpenApp): Promise<IApp> {
    return this._call('POST', [...this._path(tpu), 'apps'], request);
  }

  /** Its `server_path` becomes a complete address. */
  async visitApp(id: string, request: IVisitApp): Promise<IAppVisit> {
    const visit = await this._call<IAppVisit>(
      'POST',
      ['apps', id, 'visits'],
      request
    );
    const { baseUrl } = this._settings;
    const server_path =
      visit.server_path && new URL(visit.server_path, baseUrl).href;
    return { ...visit, server_path };
  }

  closeApp(id: string): Promise<void> {
    return this._call('DELETE', ['apps', id]);
  }

  openTensorBoard(tpu: TPURef, request: IOpenTensorBoard): Promise<IOperation> {
    return this._call('POST', [...this._path(tpu), 'tensorboard'], request);
  }

  operations(): Promise<IOperation[]> {
    return this._call('GET', ['operations']);
  }

  operation(id: string): Promise<IOperation> {
    return this._call('GET', ['operations', id]);
  }

  cancel(id: string): Promise<IOperation> {
    return this._call('DELETE', ['operations', id]);
  }

  stopTrying(id: string, how: IStopTrying): Promise<IOperation> {
    return this._call('POST', ['operations', id, 'stop-trying'], how);
  }

  private _path(tpu: TPURef): string[] {
    return ['tpus', `${tpu.zone}~${tpu.name}`];
  }

  private _environment(tpu: TPURef, name: string): string[] {
    return [...this._path(tpu), 'environments', name];
  }

  private _files(tpu: TPURef, host: number): string[] {
    return [...this._path(tpu), 'hosts', `${host}`, 'files'];
  }

  private _url(path: string[], query: { [name: string]: string } = {}): string {
    const url = URLExt.join(
      this._settings.baseUrl,
      'jupyter-tpu/v1',
      ...path.map(encodeURIComponent)
    );
    const text = new URLSearchParams(query).toString();
    return text ? `${url}?${text}` : url;
  }

  private _list<T>(path: string[], fresh: boolean): Promise<T> {
    return this._call('GET', path, undefined, fresh ? { fresh: 'true' } : {});
  }

  private async _call<T>(
    method: string,
    path: string[],
    body?: object,
    query: { [name: string]: string } = {},
    signal?: AbortSignal
  ): Promise<T> {
    const url = this._url(path, query);
    const init: RequestInit = { method, signal };
    if (body) {
      init.body = JSON.stringify(body);
    }
    let response: Response;
    try {
      response = await ServerConnection.makeRequest(url, init, this._settings);
    } catch {
      throw new Failure('', 'NETWORK');
    }
    const text = await response.text();
    if (response.ok) {
      return bodyOf(text);
    }
    throw failureOf(response.status, text);
  }
}
