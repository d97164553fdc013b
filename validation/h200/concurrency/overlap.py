"""Fluid model of kernels of several streams on one GPU, and its score against measurements. Units: us, GB/s = KB/us."""
import json, math, collections, pathlib, statistics as st, sys

class Machine:
    sms=132; threads=2048; regs=65536; smem=227*1024; blocks=32      # datasheet / cudaGetDeviceProperties
    top=4250.0      # GB/s that the memory gives at most (copy of 131072 blocks of 256 threads, alone: 4251)
    sm_draw=100.0   # GB/s that one SM can ask for (4x unrolled copy on 33 SMs: 94.6 each)
    thread_draw=0.0703  # GB/s of a thread with one 16-byte load in flight: 72 GB/s for a lone block of 1024
    sat=0.95        # share of arithmetic from which a kernel counts as bound by it
    long_block=20.0 # us; SMs whose blocks last longer come free one by one (spread 10-30 % of a block), others at once
    @property
    def cap(m):     # asymptote of the soft cap: with every SM asking for sm_draw the total is `top`
        x=m.top/(m.sms*m.sm_draw); return m.top/math.sqrt(1-x*x)

class Kernel:
    """What the engine needs to know of a kernel, all of it from the kernel alone."""
    def __init__(s,name,blocks,threads,alone,bytes_=0.0,arith=0.0,smem=0,regs=32,hidden=False):
        s.name,s.B,s.thr,s.d,s.bytes,s.arith,s.smem,s.regs,s.hidden=name,blocks,threads,alone,bytes_,arith,smem,regs,hidden
    def prepare(s,m):
        s.need=(s.thr/m.threads,s.regs*s.thr/m.regs,(s.smem+1024)/(m.smem+1024) if s.smem else 0.0,1/m.blocks)
        s.occ=int(1/max(s.need)+1e-9)
        s.used=min(m.sms,s.B); s.S=m.sms*s.occ
        s.arithmetic=s.arith>=m.sat
        s.memory=bool(s.bytes) and not s.hidden and not s.arithmetic
        s.fluid=s.memory or s.B>4*s.S               # blocks replaced as they end; else waves in lockstep
        s.fullest=min(s.occ,math.ceil(s.B/s.used))  # blocks on the fullest SM
        t_alone=s.d/(max(1.0,s.B/s.S) if s.fluid else math.ceil(s.B/s.S))   # a block's time alone
        s.M=s.bytes/s.B/1e3                         # GB/s * us of a block
        s.b=b=s.bytes/s.d/1e3                       # GB/s drawn alone
        if s.arithmetic and s.B>s.used:             # several on an SM: one after the other
            s.t0=s.A=s.d*s.used/s.B if s.fluid else s.d/math.ceil(s.B/s.used)
        else:
            s.t0=t_alone                            # a block's time if nothing is in its way
            s.A=min(s.arith*s.d*s.used/s.B,t_alone/s.fullest)   # us of an SM's arithmetic that a block needs
        s.want=s.M/s.t0; s.slow=1.0                 # GB/s a block draws
        if s.memory:                                # GB/s a block asks for, and the share of it that it gets alone
            x=min(b,m.top)/m.cap; s.want=s.M/max(t_alone*math.sqrt(1-x*x),s.A)
            s.slow=1/math.sqrt(1+(s.want*min(s.B,s.S)/m.cap)**2); s.t0=t_alone*s.slow
        s.sm=s.want*s.fullest
        s.weight=s.thr; s.wmax=min(m.sm_draw,max(s.want,s.thr*m.thread_draw))
        return s

class Res:     # blocks of one kernel on each SM of a group, started together
    __slots__=('k','w','rate','fl','n')
    def __init__(s,k,n): s.k=k; s.w=0.0; s.rate=0.0; s.n=n
class Group:   # SMs with the same content; res is oldest first
    __slots__=('m','res','cfg')
    def __init__(s,m,res,cfg=0.0): s.m=m; s.res=res; s.cfg=cfg

class Sim:
    def __init__(s,machine,opt=None):
        s.m=machine; s.o=dict(arith='first',bw='want',pack=True,stream_mem=True,smcap=True,carveout=True,place='room'); s.o.update(opt or {})
    def room(s,g,k,K):
        f=[1.0]*4
        if g.res and s.o['carveout']: f[2]=g.cfg
        for r in g.res:
            for j,x in enumerate(K[r.k].need): f[j]-=r.n*x
        return min((int(f[j]/x+1e-9) if x>0 else 99) for j,x in enumerate(k.need))
    def load(s,g,K): return sum(r.n*max(K[r.k].need) for r in g.res)
    def run(s,arrivals):
        m=s.m; t=0.0; G=[Group(m.sms,[])]; K=[k.prepare(m) for _,k in arrivals]
        pool={}; start={}; end={}; order=[]; nxt=0; s.log=[]; s.events=0; s.maxgroups=0
        stream=[k.fluid and (k.B>4*k.S or s.o['stream_mem']) for k in K]
        running=set(); packs=set(); wave=lambda i: not K[i].arithmetic and K[i].t0>m.long_block
        while True:
            s.events+=1; s.maxgroups=max(s.maxgroups,len(G))
            while nxt<len(arrivals) and arrivals[nxt][0]<=t+1e-9:
                pool[nxt]=float(K[nxt].B); order.append(nxt); running.add(nxt); nxt+=1
            while order:                            # first come first served; the head of the line blocks the rest
                i=order[0]; k=K[i]
                while pool[i]>1e-9:
                    fits=[g for g in G if s.room(g,k,K)>=1]
                    if not fits: break
                    g=max(fits,key=lambda g:(s.room(g,k,K),s.load(g,K))) if s.o['place']=='room' else min(fits,key=lambda g:s.load(g,K)); room=s.room(g,k,K)
                    # how many on each SM now: one on each (emptiest first), or all that fit where SMs come free one by one
                    n=room if (i in packs and s.o['pack']) else 1
                    left=math.ceil(pool[i]-1e-9); n=min(n,left); q=min(g.m,max(1,left//n))
                    if q<g.m: G.append(Group(g.m-q,[s.clone(r) for r in g.res],g.cfg)); g.m=q
                    if not g.res: g.cfg=min(1.0,k.need[2]*min(int(1/max(k.need[0],k.need[1],k.need[3])+1e-9),99))
                    last=g.res[-1] if g.res else None
                    if last and last.k==i and last.w==0.0 and stream[i]: last.n+=n
                    elif stream[i]: g.res.append(Res(i,n))
                    else: g.res.extend(Res(i,1) for _ in range(n))
                    pool[i]=max(0.0,pool[i]-q*n); start.setdefault(i,t)
                if pool[i]>1e-9: break
                order.pop(0)
            if order and s.o['pack']:
                for i in order:
                    if i not in start and any(wave(r.k) for g in G for r in g.res): packs.add(i)
            s.rates(G,K)
            dt=math.inf
            for g in G:
                for r in g.res:
                    if stream[r.k] and pool[r.k]>1e-9: continue
                    if r.rate>1e-12: dt=min(dt,(1-r.w)/r.rate)
            for i in running:
                if stream[i] and pool[i]>1e-9:
                    c=sum(g.m*r.n*r.rate for g in G for r in g.res if r.k==i)
                    if c>0: dt=min(dt,pool[i]/c)
            if nxt<len(arrivals): dt=min(dt,arrivals[nxt][0]-t)
            if dt==math.inf: raise RuntimeError('stuck')
            s.log.append((t,dt,[(g.m,[(r.k,r.n,round(r.w,3),r.rate) for r in g.res]) for g in G]))
            t+=dt; cons=collections.Counter()
            for g in G:
                keep=[]
                for r in g.res:
                    if stream[r.k] and pool[r.k]>1e-9: cons[r.k]+=g.m*r.n*r.rate*dt; keep.append(r); continue
                    r.w+=r.rate*dt
                    if r.w<1-1e-9: keep.append(r)
                g.res=keep
            for i,c in cons.items():
                pool[i]-=c
                if pool[i]<1e-6: pool[i]=0.0
            D={}
            for g in G:
                key=(g.cfg if g.res else 0,)+tuple((r.k,r.n,round(r.w,9)) for r in g.res)
                if key in D: D[key].m+=g.m
                else: D[key]=g
            G=list(D.values())
            left=set(r.k for g in G for r in g.res)
            for i in list(running):
                if i not in left and pool[i]<=1e-9 and i in start: end[i]=t; running.discard(i)
            if not running and nxt>=len(arrivals): break
        return {i:(start[i],end[i]) for i in end}
    def clone(s,r): x=Res(r.k,r.n); x.w=r.w; return x
    def rates(s,G,K):
        m=s.m; slow=collections.defaultdict(lambda:1.0)      # per kernel: share of its want that the memory gives
        for k in set(r.k for g in G for r in g.res): slow[k]=K[k].slow
        for it in range(2):
            want=collections.Counter(); cnt=collections.Counter()
            for g in G:
                left=1.0; asked=0.0
                for r in g.res:                              # arithmetic: oldest first
                    k=K[r.k]; a=r.n*k.A/k.t0*slow[r.k]
                    if s.o['arith']=='none' or a<=left: r.fl=1.0; left-=a
                    elif s.o['arith']=='fair': r.fl=1.0
                    else: r.fl=left/a; left=0.0
                    if k.memory: asked+=r.n*k.want*r.fl
                if s.o['arith']=='fair':
                    tot=sum(r.n*K[r.k].A/K[r.k].t0*slow[r.k] for r in g.res)
                    for r in g.res: r.fl=min(1.0,1/tot) if tot>0 and K[r.k].A>0 else 1.0
                lim=min(1.0,max(m.sm_draw,max(K[r.k].sm for r in g.res if K[r.k].memory))/asked) if asked>0 and s.o['smcap'] else 1.0
                for r in g.res:
                    k=K[r.k]
                    if k.memory: r.fl*=lim
                    if k.M: want[r.k]+=g.m*r.n*k.want*r.fl; cnt[r.k]+=g.m*r.n*(k.wmax if s.o['bw']=='max' else k.weight)*r.fl
            U=sum(w for i,w in want.items() if not K[i].memory); D=sum(w for i,w in want.items() if K[i].memory)
            if s.o['bw'] in('hard','maxmin','prop'): T=min(D,max(0.0,m.top-U))
            else: T=s.beside(U,D)
            ids=[i for i in want if K[i].memory and want[i]>0]
            if s.o['bw'] in('want','prop'): wt={i:want[i] for i in ids}
            elif s.o['bw'] in('even','maxmin'): wt={i:1.0 for i in ids}
            else: wt={i:cnt[i] for i in ids}
            ids.sort(key=lambda i:(want[i]/wt[i],i)); W=sum(wt.values()); left=T
            for i in ids:                                    # weighted max-min
                x=min(want[i],left*wt[i]/W); left-=x; W-=wt[i]; slow[i]=x/want[i]
        for g in G:
            for r in g.res: r.rate=r.fl*slow[r.k]/K[r.k].t0
    def beside(s,U,D):           # left for D beside U, which is not slowed: U is what some demand gets, D adds to that
        x=min(U/s.m.cap,0.95); return s.soft(D+x*s.m.cap/math.sqrt(1-x*x))-x*s.m.cap
    def soft(s,D): return D/math.sqrt(1+(D/s.m.cap)**2)

class Flat(Sim):
    """Design's starting rule: no SMs, only a number of slots; bw as in opt."""
    def run(s,arrivals):
        m=s.m; K=[k.prepare(m) for _,k in arrivals]; t=0.0; nxt=0; order=[]; run=[]; res={}; work={}; start={}; end={}; free=float(m.sms); s.events=0; s.maxgroups=1
        while True:
            s.events+=1
            while nxt<len(arrivals) and arrivals[nxt][0]<=t+1e-9: order.append(nxt); work[nxt]=1.0; res[nxt]=0.0; nxt+=1
            for i in list(run)+[]:
                pass
            while order:
                i=order[0]; k=K[i]; sh=max(k.need); n=min(k.B,k.S)
                x=min((n-res[i])*sh,free); 
                if x>1e-9:
                    res[i]+=x/sh; free-=x
                    if i not in start: start[i]=t; run.append(i)
                if n-res[i]>1e-6: break
                order.pop(0)
            left=float(m.sms); fl={}
            for i in run:
                k=K[i]; fr=res[i]/min(k.B,k.S); a=k.arith*k.used*fr
                fl[i]=fr*min(1.0,left/a if a>0 else 1.0); left=max(0.0,left-a)
            want={i:K[i].b*fl[i] for i in run if K[i].bytes}
            slow=collections.defaultdict(lambda:1.0)
            ids=sorted(want,key=lambda i:(want[i],i)); lft=m.top; W=len(ids)
            if s.o['bw']=='maxmin':
                for j,i in enumerate(ids):
                    x=min(want[i],lft/(W-j)); lft-=x; slow[i]=x/want[i] if want[i] else 1
            else:
                inv={i:min(want[i]/math.sqrt(1-min(.9999,want[i]/m.cap)**2),m.sms*m.sm_draw) for i in ids if want[i]>0}
                D=sum(inv.values()); T=D/math.sqrt(1+(D/m.cap)**2); wt={i:res[i]*K[i].thr for i in inv}; W=sum(wt.values()); lft=T
                for i in sorted(inv,key=lambda i:(inv[i]/wt[i],i)):
                    x=min(inv[i],want[i]*1.0,lft*wt[i]/W); lft-=x; W-=wt[i]; slow[i]=x/want[i]
            rate={i:fl[i]*slow[i]/K[i].d for i in run}
            dt=min([work[i]/rate[i] for i in run if rate[i]>1e-15]+([arrivals[nxt][0]-t] if nxt<len(arrivals) else []))
            t+=dt
            for i in list(run):
                work[i]-=rate[i]*dt
                if work[i]<1e-9: end[i]=t; run.remove(i); free+=res[i]*max(K[i].need); res[i]=0; order=[o for o in order if o!=i]
            if not run and not order and nxt>=len(arrivals): break
        return {i:(start[i],end[i]) for i in end}
REGS=dict(c=16,u=40,x=24,f=16)   # ptxas -v, rounded up to 8
# ---- data -------------------------------------------------------------------------------------------------------
ARITH_PER_GBS=0.0021   # share of an SM's issue slots that a copy takes per GB/s it draws on that SM (c/8 beside f/132)
def make(desc,d):
    """desc: c/8, f/33, c/132t256, f/8448t256:5000, u/33, x/132:8, c/132/s122880"""
    kind=desc[0]; p=desc.split('/'); smem=int(p[2][1:]) if len(p)>2 else 0
    q=p[1].split(':')[0].split('t'); B=int(q[0]); T=int(q[1]) if len(q)>1 else 1024
    par=p[1].split(':')[1] if ':' in p[1] else None
    W=512*2**20*2
    used=min(132,B)
    if kind=='f':
        occ=min(2048//T,32); a=1.0
        if T==256 and B<=132: a=175.5/184
        return Kernel(desc,B,T,d,0,a,smem,REGS[kind])
    a=ARITH_PER_GBS*(W/d/1e3)/used
    if kind=='x': a+=2**25*int(par)*4/ (128*1.83e3*used)/d * 1.0
    return Kernel(desc,B,T,d,W,min(a,1.0),smem,REGS[kind])

EV=[]
def score(pairs,alone,opt,mach,verbose=0,dur=False,offset=None,fault=0.0):
    """pairs: list of dict(ks=[..],start=[..]|None,end=[..] or dur). Returns relative errors of span, ends."""
    E=[];S=[];rows=[]
    for p in pairs:
        ks=[make(n,alone[n]-(fault if n[0]!='f' else 0)) for n in p['ks']]
        arr=[(4.0*i+(fault if False else 0),k) for i,k in enumerate(ks)]
        sim=(Flat if opt.get('flat') else Sim)(mach,opt); r=sim.run(arr); EV.append((sim.events,sim.maxgroups))
        if fault:  # a copy that is there during the fault stands still until it is over: shift
            pass
        t0=min(v[0] for v in r.values()); span=max(v[1] for v in r.values())-t0
        es=[]
        for i in range(len(ks)):
            x=(r[i][1]-r[i][0]) if dur else r[i][1]-t0
            if fault and ks[i].name[0]!='f' and r[i][0]<fault: x+=fault
            es.append((x/p['end'][i]-1,x,p['end'][i]))
        if fault and any(k.name[0]!='f' for k in ks) and all(k.name[0]!='f' for k in ks): span+=fault
        elif fault and ks[0].name[0]!='f' and not ks[1].name[0]!='f' and (r[0][1]>=r[1][1]): span+=fault
        elif fault and ks[0].name[0]!='f' and r[1][0]>20: span+=fault
        S.append(span/p['span']-1); E+= [e[0] for e in es]; rows.append((max(abs(S[-1]),max(abs(e[0]) for e in es)),p,span,es))
    return S,E,rows
def q(v,p): v=sorted(map(abs,v)); return v[min(len(v)-1,int(p*len(v)))]
def line(name,S,E): return f"{name:44s} spans med {100*st.median(map(abs,S)):5.1f} p90 {100*q(S,.9):5.1f} worst {100*max(map(abs,S)):5.1f} | ends med {100*st.median(map(abs,E)):5.1f} p90 {100*q(E,.9):5.1f} worst {100*max(map(abs,E)):5.1f}  (%) bias spans {100*st.mean(S):+.1f} ends {100*st.mean(E):+.1f}"
def load_ref():
    d=json.load(open(pathlib.Path(__file__).resolve().parents[4]/'shared/measured/h200/overlap.json'))
    alone={f"{'c' if a['kind']=='copy' else 'f'}/{a['blocks']}":a['us'] for a in d['alone']}
    sh=lambda x:x.replace('copy','c').replace('fma','f')
    pairs=[dict(ks=[sh(t['a']),sh(t['b'])],end=[t['a_us'],t['b_us']],span=t['span_us']) for t in d['together']]
    return alone,pairs
def load_own(groups):
    import rows as R
    alone={k:float(v['last_end']) for k,v in R.alone.items() if float(v['last_end'])>0}
    out=[]
    for (g,s),v in R.R.items():
        if g not in groups: continue
        n=[R.sh(r['kernel']) for r in v]; t=[[float(r[x]) for x in('first_start','last_start','first_end','last_end')] for r in v]
        if any(x[3]<0 for x in t): continue
        out.append(dict(sid=s,ks=n,end=[x[3] for x in t],start=[x[0] for x in t],span=max(x[3] for x in t)))
    return alone,out
def worst(rows,n):
    for w,p,span,es in sorted(rows,key=lambda r:-r[0])[:n]:
        print(f"   {100*w:5.0f}%  {' + '.join(p['ks']):34s} span {span:6.0f}/{p['span']:6.0f}  ends "+'  '.join(f"{e[1]:6.0f}/{e[2]:6.0f}" for e in es))
V={'RECOMMENDED':dict(),'no packing of late blocks':dict(pack=False),'copies in lockstep waves':dict(stream_mem=False),'no limit per SM':dict(smcap=False),'no smem carve-out':dict(carveout=False),
   'emptiest SM first':dict(place='load'),'shares by max(want,threads)':dict(bw='max'),'shares by threads':dict(bw='threads'),'even shares (soft cap)':dict(bw='even'),'hard cap, shares by want':dict(bw='prop'),'hard cap, max-min of alone draws':dict(bw='maxmin'),
   'arithmetic shared evenly':dict(arith='fair'),'arithmetic not shared':dict(arith='none'),
   'FLAT slots, soft cap':dict(flat=True,bw='soft'),'FLAT slots, max-min (design)':dict(flat=True,bw='maxmin')}
def alone_error(pairs,alone):
    S=[];E=[]
    for p in pairs:
        S.append(max(alone[n] for n in p['ks'])/p['span']-1); E+=[alone[n]/e-1 for n,e in zip(p['ks'],p['end'])]
    return S,E
if __name__=='__main__':
    nw=int(sys.argv[1]) if len(sys.argv)>1 else 8
    al=load_own(['pair'])[0]; w=0.0
    for n,d in al.items(): w=max(w,abs(Sim(Machine()).run([(0,make(n,d))])[0][1]/d-1))
    print(f'largest error of a kernel alone: {100*w:.2f} %')
    sets=[('overlap.json, as it stands, top=3600',load_ref(),3600,True,0.0),('overlap.json, 50 us page fault taken off, top=4250',load_ref(),4250,True,50.0),('own: 100 ordered pairs of the same kernels',load_own(['pair']),4250,False,0.0),
      ('own: 81 ordered pairs, 256 threads',load_own(['pair256']),4250,False,0.0),('own: 176 pairs with unrolled, mixed, shared-memory kernels',load_own(['pair3','pair3b']),4250,False,0.0),('own: 13 triples',load_own(['three']),4250,False,0.0)]
    for title,(alone,pairs),top,dur,fl in sets:
        print('##',title,len(pairs))
        S,E=alone_error(pairs,alone); print(line('no sharing at all',S,E))
        for n,o in V.items():
            M=Machine(); M.top=top; EV.clear()
            S,E,rows=score(pairs,alone,o,M,dur=dur,fault=fl)
            print(line(n,S,E),f"events mean {st.mean(e[0] for e in EV):.1f} max {max(e[0] for e in EV)} groups max {max(e[1] for e in EV)}")
            if n=='RECOMMENDED': worst(rows,nw)
