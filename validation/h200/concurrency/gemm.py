import overlap as o, statistics as st
al=o.load_own(['pair','pair256'])[0]; E=[]
meas={('c/33','g'):1600,('g','c/33'):2051,('c/132','g'):1665,('g','c/132'):1646,('c/131072t256','g'):1648,('g','c/131072t256'):1648,('f/66','g'):1831,('g','f/66'):2876,('f/264','g'):2853,('g','f/264'):2977}
for (a,b),m in meas.items():
    K=[o.Kernel('g',2048,384,1400,403e6,0.2,213188,168,hidden=True) if x=='g' else o.make(x,al[x]) for x in (a,b)]
    r=o.Sim(o.Machine(),{}).run([(0,K[0]),(4,K[1])]); x=max(v[1] for v in r.values())+3; E.append(x/m-1); print(a,b,'span',round(x),m,f'{100*E[-1]:+.1f}%')
print('median',100*st.median(map(abs,E)),'worst',100*max(map(abs,E)))
for nb in (16,24,32):
    n=o.Kernel('nccl',nb,544,943.4,3*268e6,0.1,103808,96); G=o.Kernel('4g',8192,384,6373.6,4*403e6,0.2,213188,168,hidden=True)
    r=o.Sim(o.Machine()).run([(0,n),(5,G)]); x=max(v[1] for v in r.values()); print('twogpu, NCCL blocks',nb,round(x),'measured 6694',f'{100*(x/6694.472-1):+.1f}%',r)
