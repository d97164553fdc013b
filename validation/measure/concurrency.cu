// Overlap of kernels on one GPU, per-block records. Usage: concurrency OUTDIR
#include <cuda_runtime.h>
#include <cublas_v2.h>
#include <cuda_bf16.h>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>
#include <string>
#include <algorithm>
#define CK(x) do{cudaError_t err_=(x); if(err_!=cudaSuccess){fprintf(stderr,"%d %s\n",__LINE__,cudaGetErrorString(err_)); exit(1);} }while(0)
typedef unsigned long long u64;
struct Rec{ u64 t0,t1; unsigned sm,pad; };
__device__ __forceinline__ u64 gt(){ u64 t; asm volatile("mov.u64 %0, %globaltimer;":"=l"(t)); return t; }
__device__ __forceinline__ unsigned smid(){ unsigned t; asm volatile("mov.u32 %0, %smid;":"=r"(t)); return t; }
#define BEG u64 t0=0; if(threadIdx.x==0) t0=gt();
#define FIN __syncthreads(); if(threadIdx.x==0){ Rec q; q.t0=t0; q.t1=gt(); q.sm=smid(); q.pad=0; r[blockIdx.x]=q; }
__global__ void copy_k(const float4* a, float4* b, size_t n, Rec* r){ BEG for(size_t i=blockIdx.x*(size_t)blockDim.x+threadIdx.x;i<n;i+=(size_t)gridDim.x*blockDim.x) b[i]=a[i]; FIN }
__global__ void ucopy_k(const float4* a, float4* b, size_t n, Rec* r){ BEG size_t s=(size_t)gridDim.x*blockDim.x; size_t i=blockIdx.x*(size_t)blockDim.x+threadIdx.x; for(;i+3*s<n;i+=4*s){ float4 x=a[i],y=a[i+s],z=a[i+2*s],w=a[i+3*s]; b[i]=x; b[i+s]=y; b[i+2*s]=z; b[i+3*s]=w; } for(;i<n;i+=s) b[i]=a[i]; FIN }
__global__ void mix_k(const float4* a, float4* b, size_t n, int k, Rec* r){ BEG for(size_t i=blockIdx.x*(size_t)blockDim.x+threadIdx.x;i<n;i+=(size_t)gridDim.x*blockDim.x){ float4 x=a[i]; for(int j=0;j<k;j++){ x.x=x.x*x.y+1.f; x.y=x.y*x.z+1.f; x.z=x.z*x.w+1.f; x.w=x.w*x.x+1.f; } b[i]=x; } FIN }
__global__ void fma_k(float* o, long iters, Rec* r){ BEG float x=threadIdx.x,y=1.0001f,z=x+1,u=x+2,v=x+3; for(long i=0;i<iters;i++){ x=x*y+z; z=z*y+u; u=u*y+v; v=v*y+x; } if(x+z+u+v==12345.f) o[0]=x; FIN }
__global__ void copy_m(const float4* a, float4* b, size_t n, u64* w){ if(threadIdx.x==0) atomicMin(&w[0],gt()); for(size_t i=blockIdx.x*(size_t)blockDim.x+threadIdx.x;i<n;i+=(size_t)gridDim.x*blockDim.x) b[i]=a[i]; __syncthreads(); if(threadIdx.x==0) atomicMax(&w[1],gt()); }
__global__ void fma_m(float* o, long iters, u64* w){ if(threadIdx.x==0) atomicMin(&w[0],gt()); float x=threadIdx.x,y=1.0001f,z=x+1,u=x+2,v=x+3; for(long i=0;i<iters;i++){ x=x*y+z; z=z*y+u; u=u*y+v; v=v*y+x; } if(x+z+u+v==12345.f) o[0]=x; __syncthreads(); if(threadIdx.x==0) atomicMax(&w[1],gt()); }
__global__ void init_k(__nv_bfloat16* p,size_t n){ for(size_t i=blockIdx.x*(size_t)blockDim.x+threadIdx.x;i<n;i+=(size_t)gridDim.x*blockDim.x){ unsigned h=(unsigned)i*2654435761u; h^=h>>15; h*=2246822519u; h^=h>>13; p[i]=__float2bfloat16((float)(h&0xffff)/65536.f-0.5f);} }
struct K{ char kind; int blocks; int threads; size_t work; int smem; };
std::string nm(const K&k){ char s[96]; snprintf(s,96,"%c/%d/%d/%zu%s",k.kind,k.blocks,k.threads,k.work,k.smem?(std::string("/s")+std::to_string(k.smem)).c_str():""); return s; }
cudaStream_t s[3]; float4 *A[3],*B[3]; float* o; Rec* rec[3]; Rec* hrec; u64* mw; char *hp[2]; cublasHandle_t hb; __nv_bfloat16 *G[3]; cudaEvent_t e0,eb[3],ee[3];
static bool own(char c){ return strchr("cufx",c)!=nullptr; }
void go(const K&k,int i){ size_t n=(512ull<<20)/16; switch(k.kind){
 case 'c': copy_k<<<k.blocks,k.threads,k.smem,s[i]>>>(A[i],B[i],k.work/16,rec[i]); break;
 case 'u': ucopy_k<<<k.blocks,k.threads,k.smem,s[i]>>>(A[i],B[i],k.work/16,rec[i]); break;
 case 'x': mix_k<<<k.blocks,k.threads,k.smem,s[i]>>>(A[i],B[i],n,(int)k.work,rec[i]); break;
 case 'f': fma_k<<<k.blocks,k.threads,k.smem,s[i]>>>(o,(long)k.work,rec[i]); break;
 case 'h': CK(cudaMemcpyAsync(A[i],hp[0],k.work,cudaMemcpyHostToDevice,s[i])); break;
 case 'd': CK(cudaMemcpyAsync(hp[1],A[i],k.work,cudaMemcpyDeviceToHost,s[i])); break;
 case 'D': CK(cudaMemcpyAsync(B[i],A[i],k.work,cudaMemcpyDeviceToDevice,s[i])); break;
 case 'M': CK(cudaMemsetAsync(B[i],0,k.work,s[i])); break;
 case 'g': { float al=1,be=0; int m=(int)k.work; cublasSetStream(hb,s[i]); cublasGemmEx(hb,CUBLAS_OP_N,CUBLAS_OP_N,m,m,m,&al,G[0],CUDA_R_16BF,m,G[1],CUDA_R_16BF,m,&be,(void*)(i==0?(char*)G[2]:(char*)G[2]+(256<<20)),CUDA_R_16BF,m,CUBLAS_COMPUTE_32F,CUBLAS_GEMM_DEFAULT); break; }
 } CK(cudaGetLastError()); }
FILE *fo,*fb; int sid=0;
void run(std::vector<K> ks,const char* group,bool dump=false,bool ev=false,int reps=7){
  int n=ks.size(); bool allown=true; for(auto&k:ks) allown&=own(k.kind); if(!allown) ev=true;
  std::vector<std::vector<double>> F(n*6); std::vector<std::vector<std::vector<Rec>>> keep(reps); std::vector<double> sp;
  for(int r=0;r<reps+1;r++){
    for(int i=0;i<n;i++) if(own(ks[i].kind)) CK(cudaMemsetAsync(rec[i],0,sizeof(Rec)*ks[i].blocks,s[0]));
    CK(cudaDeviceSynchronize());
    if(ev){ CK(cudaEventRecord(e0,s[0])); for(int i=0;i<n;i++) CK(cudaEventRecord(eb[i],s[i])); for(int i=0;i<n;i++){ go(ks[i],i); CK(cudaEventRecord(ee[i],s[i])); } }
    else for(int i=0;i<n;i++) go(ks[i],i);
    CK(cudaDeviceSynchronize());
    if(r==0) continue; // warm
    u64 base=~0ull; std::vector<std::vector<Rec>> R(n);
    for(int i=0;i<n;i++) if(own(ks[i].kind)){ R[i].resize(ks[i].blocks); CK(cudaMemcpy(R[i].data(),rec[i],sizeof(Rec)*ks[i].blocks,cudaMemcpyDeviceToHost)); for(auto&q:R[i]) base=std::min(base,q.t0); }
    double mx=0;
    for(int i=0;i<n;i++){ float x0=-1,x1=-1; if(ev){ CK(cudaEventElapsedTime(&x0,e0,eb[i])); CK(cudaEventElapsedTime(&x1,e0,ee[i])); x0*=1e3; x1*=1e3; }
      double v[6]={-1,-1,-1,-1,x0,x1}; if(own(ks[i].kind)){ u64 fs=~0ull,ls=0,fe=~0ull,le=0; for(auto&q:R[i]){ fs=std::min(fs,q.t0); ls=std::max(ls,q.t0); fe=std::min(fe,q.t1); le=std::max(le,q.t1);} v[0]=(fs-base)/1e3; v[1]=(ls-base)/1e3; v[2]=(fe-base)/1e3; v[3]=(le-base)/1e3; }
      for(int j=0;j<6;j++) F[i*6+j].push_back(v[j]); mx=std::max(mx,std::max(v[3],v[5])); }
    sp.push_back(mx); if(dump) keep[r-1]=R; }
  auto med=[](std::vector<double>v){ std::sort(v.begin(),v.end()); return v[v.size()/2]; };
  for(int i=0;i<n;i++){ fprintf(fo,"%s,%d,%d,%s",group,sid,i,nm(ks[i]).c_str()); for(int j=0;j<6;j++) fprintf(fo,",%.2f",med(F[i*6+j])); fprintf(fo,"\n"); }
  if(dump){ int best=0; double m=med(sp); for(int r=0;r<reps;r++) if(sp[r]==m) best=r; auto&R=keep[best]; u64 base=~0ull; for(auto&v:R) for(auto&q:v) base=std::min(base,q.t0); for(int i=0;i<n;i++) for(size_t b=0;b<R[i].size()&&b<600;b++) fprintf(fb,"%d,%d,%zu,%u,%.2f,%.2f\n",sid,i,b,R[i][b].sm,(R[i][b].t0-base)/1e3,(R[i][b].t1-base)/1e3); }
  sid++; }
void runm(std::vector<K> ks){ std::vector<double> X,Y,S; for(int r=0;r<7;r++){ mw[0]=mw[2]=~0ull; mw[1]=mw[3]=0; CK(cudaDeviceSynchronize()); for(size_t i=0;i<ks.size();i++){ auto&k=ks[i]; if(k.kind=='c') copy_m<<<k.blocks,k.threads,0,s[i]>>>(A[i],B[i],k.work/16,mw+2*i); else fma_m<<<k.blocks,k.threads,0,s[i]>>>(o,(long)k.work,mw+2*i);} CK(cudaDeviceSynchronize()); X.push_back((mw[1]-mw[0])/1e3); if(ks.size()>1){ Y.push_back((mw[3]-mw[2])/1e3); S.push_back((std::max(mw[1],mw[3])-std::min(mw[0],mw[2]))/1e3);} } auto med=[](std::vector<double>v){std::sort(v.begin(),v.end());return v[v.size()/2];};
  fprintf(fo,"managed,%d,0,%s,0,0,0,%.2f,-1,-1\n",sid,nm(ks[0]).c_str(),med(X)); if(ks.size()>1) fprintf(fo,"managed,%d,1,%s,%.2f,0,0,%.2f,%.2f,-1\n",sid,nm(ks[1]).c_str(),med(S)-med(Y),med(Y),med(S)); sid++; }
int main(int c,char**v){ std::string out=v[1]; fo=fopen((out+"/rows.csv").c_str(),"w"); fb=fopen((out+"/blocks.csv").c_str(),"w"); setvbuf(fo,0,_IOLBF,0);
  fprintf(fo,"group,sid,i,kernel,first_start,last_start,first_end,last_end,ev0,ev1\n");
  for(auto&x:s) CK(cudaStreamCreateWithFlags(&x,cudaStreamNonBlocking)); for(int i=0;i<3;i++){ CK(cudaMalloc(&A[i],1ull<<30)); CK(cudaMalloc(&B[i],1ull<<30)); CK(cudaMemset(A[i],1+i,1ull<<30)); CK(cudaMemset(B[i],0,1ull<<30)); CK(cudaMalloc(&rec[i],sizeof(Rec)*140000)); CK(cudaEventCreate(&eb[i])); CK(cudaEventCreate(&ee[i])); }
  CK(cudaEventCreate(&e0)); CK(cudaMalloc(&o,4096)); CK(cudaMallocManaged(&mw,64)); for(auto&h:hp){ CK(cudaMallocHost(&h,256<<20)); memset(h,1,256<<20); } for(auto&g:G){ CK(cudaMalloc(&g,512ull<<20)); init_k<<<528,256>>>(g,256ull<<20); }
  cublasCreate(&hb); CK(cudaDeviceSynchronize()); CK(cudaFuncSetAttribute(copy_k,cudaFuncAttributeMaxDynamicSharedMemorySize,200<<10)); CK(cudaFuncSetAttribute(fma_k,cudaFuncAttributeMaxDynamicSharedMemorySize,200<<10));
  size_t W=512ull<<20; auto C=[&](int b,int t=1024,int sm=0){ return K{'c',b,t,W,sm}; }; auto U=[&](int b,int t=1024){ return K{'u',b,t,W,0}; }; auto Fm=[&](int b,int t=1024,size_t w=40000,int sm=0){ return K{'f',b,t,w,sm}; }; auto X=[&](int b,int t,size_t k){ return K{'x',b,t,k,0}; };
  for(int i=0;i<200;i++) go(Fm(264),0); CK(cudaDeviceSynchronize()); // clocks up
  std::vector<K> base; for(int b:{8,16,33,66,132,264}) base.push_back(C(b)); for(int b:{33,66,132,264}) base.push_back(Fm(b));
  for(auto&k:base) runm({k}); runm({C(132),Fm(33)}); runm({C(132),Fm(132)}); runm({C(132),C(132)}); runm({C(8),Fm(132)}); runm({C(66),Fm(132)}); runm({C(264),Fm(264)}); runm({C(264),C(264)});
  for(auto&k:base) run({k},"alone",true); for(auto&a:base) for(auto&b:base) run({a,b},"pair",true);
  std::vector<K> t2={C(132,256),C(528,256),C(1056,256),C(131072,256),Fm(132,256),Fm(528,256),Fm(1056,256),Fm(8448,256,5000),Fm(33)}; for(auto&k:t2) run({k},"alone256",k.blocks<2000); for(auto&a:t2) for(auto&b:t2) run({a,b},"pair256",a.blocks+b.blocks<1200);
  std::vector<K> t3={U(33),U(66),U(132),U(264),X(132,1024,8),X(132,1024,32),X(264,1024,16),X(131072,256,16),X(131072,256,48),C(132,1024,120<<10),Fm(132,1024,40000,120<<10)}; for(auto&k:t3) run({k},"alone3",k.blocks<2000); 
  std::vector<K> t4={C(33),C(132),C(131072,256),Fm(66),Fm(132)}; for(auto&a:t3) for(auto&b:t4){ run({a,b},"pair3",a.blocks+b.blocks<600); run({b,a},"pair3",false);} for(size_t i=0;i<t3.size();i++) for(size_t j=i;j<t3.size();j++) run({t3[i],t3[j]},"pair3b",false);
  run({C(33),C(33),C(33)},"three"); run({C(66),C(66),C(66)},"three"); run({C(132),C(132),C(132)},"three"); run({U(132),U(132),U(132)},"three"); run({Fm(132),Fm(132),Fm(132)},"three",true); run({Fm(66),Fm(66),Fm(66)},"three",true); run({C(66),Fm(132),C(66)},"three"); run({C(16),Fm(132),C(66)},"three"); run({C(8),C(33),Fm(264)},"three",true); run({C(132),Fm(132),C(33)},"three",true); run({Fm(132),C(132),C(132)},"three"); run({Fm(264),C(33),C(33)},"three"); run({C(131072,256),Fm(132),C(131072,256)},"three");
  K h{'h',0,0,256ull<<20,0},d{'d',0,0,256ull<<20,0},D{'D',0,0,W,0},M{'M',0,0,1ull<<30,0},g{'g',0,0,8192,0},g4{'g',0,0,4096,0};
  std::vector<K> ce={h,d,D,M,g,g4}, ot={C(33),C(132),C(131072,256),U(264),Fm(66),Fm(264)}; for(auto&k:ce) run({k},"alonece"); for(auto&k:ot) run({k},"alonece",false,true); for(auto&a:ce) for(auto&b:ot){ run({a,b},"ce"); run({b,a},"ce"); } for(auto&a:ce) for(auto&b:ce) if(a.kind!=b.kind||a.kind=='g'||a.kind=='D') run({a,b},"ce2");
  fclose(fo); fclose(fb); printf("ok %d\n",sid); return 0; }
